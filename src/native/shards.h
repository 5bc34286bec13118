// Many files in one range of addresses: each is mapped after the one before it, so that the records of all of them are
// extents of one span.
#pragma once

#include <string>
#include <vector>

#include "guard.h"
#include "record.h"

namespace bushel {

struct MappedFile {
  std::string path;
  std::uint64_t size;  // that it must have
};

// Files mapped for reading into one range of addresses, each starting on a new page. No file stays open. If a file is
// truncated while it is mapped, the missing bytes read as zeros.
class Mapping {
 public:
  // On failure `error` of the result is errno and `failed` the number of the file; it then holds nothing.
  // With `own` it is memory of this process: writing to it does not change the files.
  Mapping(const std::vector<MappedFile>& files, bool own);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Bytes bytes() const { return {data_, size_}; }
  std::uint8_t* data() const { return data_; }
  bool is_own() const { return own_; }
  const std::vector<std::uint64_t>& starts() const { return starts_; }  // of each file in bytes()
  int error() const { return error_; }
  std::size_t failed() const { return failed_; }

 private:
  bool map_file(const MappedFile& file, std::uint64_t start);

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  bool own_;
  std::vector<std::uint64_t> starts_;
  std::vector<Guard> guards_;
  int error_ = 0;
  std::size_t failed_ = 0;
};

// Where the records of one shard are: two columns of its index, which must outlive this.
struct ShardIndex {
  const std::uint64_t* offsets;
  const std::uint32_t* lengths;
  std::uint64_t records;
  std::uint64_t start;  // of the shard in the mapping
};

// Records of many shards by one number: the first shard's come first.
class Places {
 public:
  explicit Places(std::vector<ShardIndex> shards);

  std::uint64_t records() const { return first_.back(); }
  // Extents of `rows` in the mapping. False if a row is not below records().
  bool find(std::span<const std::int64_t> rows, Extent* out) const;

 private:
  std::vector<ShardIndex> shards_;
  std::vector<std::uint64_t> first_;  // record of each shard, and the number of all
};

// Brings the records into memory, and small ones into the cache, so that the wait for them happens here and nowhere
// else. The result is meaningless: it keeps the compiler from leaving the loads out.
std::uint64_t fetch(Bytes memory, std::span<const Extent> extents);

}  // namespace bushel
