#include "paint.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "decode_jpeg.h"
#include "decode_png.h"
#include "encode_jpeg.h"
#include "encode_png.h"
#include "half.h"
#include "jpeg.h"
#include "orientation.h"
#include "pause.h"
#include "threads.h"
#include "wide.h"

namespace bushel {

namespace {

constexpr std::size_t kAhead = 16;    // rows decoded at once
constexpr std::size_t kResizers = 8;  // kept, since the images of a batch have few sizes
// libjpeg-turbo bypasses the cache for rows with this alignment: rows that are read again at once are placed off it.
constexpr std::size_t kStreamed = 32, kOdd = 16;
constexpr std::size_t kTask = 1 << 17;  // bytes of output that make a task worth its overhead

BUSHEL_WIDE void to_floats(const std::uint8_t* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
}

// `means` and `stds` repeat those of the channels for a whole row.
BUSHEL_WIDE void normalise(float* values, std::size_t n, const float* means, const float* stds) {
  for (std::size_t i = 0; i < n; ++i) values[i] = (values[i] - means[i]) / stds[i];
}

template <typename T>
[[gnu::always_inline]] inline void part_channels(const T* in, std::size_t pixels, std::size_t channels, T* out,
                                                 std::size_t plane) {
  if (channels == 3) {
    for (std::size_t i = 0; i < pixels; ++i) {
      out[i] = in[3 * i];
      out[i + plane] = in[3 * i + 1];
      out[i + 2 * plane] = in[3 * i + 2];
    }
    return;
  }
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = 0; i < pixels; ++i) out[i + c * plane] = in[i * channels + c];
}

BUSHEL_WIDE void to_planes(const std::uint8_t* in, std::size_t n, std::size_t c, std::uint8_t* out, std::size_t plane) {
  part_channels(in, n, c, out, plane);
}
BUSHEL_WIDE void to_planes(const std::uint16_t* in, std::size_t n, std::size_t c, std::uint16_t* out,
                           std::size_t plane) {
  part_channels(in, n, c, out, plane);
}
BUSHEL_WIDE void to_planes(const float* in, std::size_t n, std::size_t c, float* out, std::size_t plane) {
  part_channels(in, n, c, out, plane);
}

template <typename T>
void mirror(const T* in, std::size_t pixels, std::size_t channels, T* out) {
  const T* pixel = in + pixels * channels;
  for (std::size_t i = 0; i < pixels; ++i, out += channels) {
    pixel -= channels;
    for (std::size_t c = 0; c < channels; ++c) out[c] = pixel[c];
  }
}

void grow(Buffer& buffer, std::size_t size) {
  if (buffer.size() < size) buffer = Buffer(size);
}

template <typename T>
T* grown(std::vector<T>& values, std::size_t n) {
  if (values.size() < n) values.resize(n);
  return values.data();
}

// Rows of values to their places in one image of a batch: scaled, cast, laid out.
class Finish {
 public:
  explicit Finish(const Target& target) : target_(target) {
    if (target.mean.empty()) return;
    for (std::size_t i = 0; i < target.size.row(); ++i) {
      means_.push_back(target.mean[i % target.size.channels]);
      stds_.push_back(target.std[i % target.size.channels]);
    }
  }

  void begin(std::uint8_t* out) { out_ = out; }

  // Where the floats of a row can be written as they are; null if more is to be done with them.
  float* place(std::size_t y, std::size_t x) const {
    if (target_.dtype != Dtype::float32 || target_.has_planes || !means_.empty()) return nullptr;
    return reinterpret_cast<float*>(out_) + y * target_.size.row() + x * target_.size.channels;
  }

  // Where the bytes of the whole image can be written as they are.
  std::uint8_t* bytes() const {
    const bool is_plain = target_.dtype == Dtype::uint8 && means_.empty();
    return is_plain && (!target_.has_planes || target_.size.channels == 1) ? out_ : nullptr;
  }

  void write(const std::uint8_t* row, std::size_t y, std::size_t x, std::size_t pixels) {
    if (target_.dtype == Dtype::uint8) return store(row, y, x, pixels);
    float* const values = place(y, x) ? place(y, x) : grown(floats_, target_.size.row());
    to_floats(row, pixels * target_.size.channels, values);
    if (!place(y, x)) finish(values, y, x, pixels);
  }

  void write(const float* row, std::size_t y, std::size_t x, std::size_t pixels) {
    float* const values = place(y, x) ? place(y, x) : grown(floats_, target_.size.row());
    std::memcpy(values, row, pixels * target_.size.channels * sizeof(float));
    if (!place(y, x)) finish(values, y, x, pixels);
  }

 private:
  void finish(float* values, std::size_t y, std::size_t x, std::size_t pixels) {
    const std::size_t n = pixels * target_.size.channels;
    if (!means_.empty()) normalise(values, n, means_.data(), stds_.data());
    if (target_.dtype == Dtype::float32) return store(values, y, x, pixels);
    if (target_.dtype == Dtype::uint8) {
      round_values(values, n, grown(bytes_, n));
      return store(bytes_.data(), y, x, pixels);
    }
    (target_.dtype == Dtype::float16 ? to_float16 : to_bfloat16)(values, n, grown(halves_, n));
    store(halves_.data(), y, x, pixels);
  }

  template <typename T>
  void store(const T* row, std::size_t y, std::size_t x, std::size_t pixels) const {
    const ImageSize& size = target_.size;
    T* const out = reinterpret_cast<T*>(out_);
    if (target_.has_planes)
      to_planes(row, pixels, size.channels, out + y * size.width + x, size.height * size.width);
    else
      std::memcpy(out + y * size.row() + x * size.channels, row, pixels * size.channels * sizeof(T));
  }

  const Target& target_;
  std::uint8_t* out_ = nullptr;
  std::vector<float> means_, stds_, floats_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint16_t> halves_;
};

// The rows of a part that are available; the first of them is row `first`.
template <typename T>
struct Rows {
  const T* data;
  std::size_t stride;
  std::size_t first, end;

  const T* row(std::size_t y) const { return data + (y - first) * stride; }
};

// Takes the pixels of images, one after the other: says which part of an image it wants, then receives its rows as they
// come.
class Taker {
 public:
  virtual ~Taker() = default;

  // False if there is no such part.
  virtual bool place(ImageSize size, Part& part) = 0;
  // Where all rows of the part can be written as they are, one after the other; null if they must be changed.
  virtual std::uint8_t* straight() = 0;
  // The rows that are needed next, at most this many at once; earlier ones are no longer needed.
  virtual Range wanted() const = 0;
  virtual std::size_t window() const = 0;
  virtual void take(const Rows<std::uint8_t>& rows) = 0;
};

// One image of a batch, painted as the rows of its part come.
class Painter {
 public:
  explicit Painter(const Target& target) : target_(target), finish_(target) {}

  void begin(const Move& move, std::uint8_t flips, std::uint8_t* out, std::size_t image) {
    move_ = move;
    flips_ = flips;
    image_ = image;
    next_ = 0;
    from_ = {static_cast<std::size_t>(move.height), static_cast<std::size_t>(move.width), target_.size.channels};
    to_ = {static_cast<std::size_t>(move.to_height), static_cast<std::size_t>(move.to_width), target_.size.channels};
    finish_.begin(out);
    resizer_ = from_.height == to_.height && from_.width == to_.width ? nullptr : &resizer_for();
    is_whole_ = move.at_top == 0 && move.at_left == 0 && to_ == target_.size;
    find_column();
    has_bytes_ = target_.rounds || !resizer_;
    if (target_.steps.empty())
      fill();
    else if (has_bytes_)
      std::fill_n(grown(canvas_, target_.size.values()), target_.size.values(),
                  static_cast<std::uint8_t>(target_.fill));
    else
      std::fill_n(grown(exact_canvas_, target_.size.values()), target_.size.values(), target_.fill);
  }

  // The rows that are needed next; from == end if none is.
  Range wanted() const {
    if (next_ >= to_.height) return {from_.height, from_.height};
    if (!resizer_) return {next_, next_ + 1};
    return {resizer_->first_row(next_), resizer_->first_row(next_) + resizer_->row_count()};
  }
  std::size_t window() const { return resizer_ ? resizer_->row_count() : 1; }

  // Where the bytes of the part go as they are.
  std::uint8_t* straight() const {
    const bool is_plain = !resizer_ && is_whole_ && flips_ == 0 && target_.steps.empty();
    return is_plain ? finish_.bytes() : nullptr;
  }

  // Paints everything that these rows suffice for.
  template <typename T>
  void paint(const Rows<T>& rows) {
    for (Range range = wanted(); next_ < to_.height && range.end <= rows.end; range = wanted()) {
      const std::size_t y = flips_ & kUpsideDown ? to_.height - 1 - next_ : next_;
      const std::int64_t place = static_cast<std::int64_t>(y) + move_.at_top;
      if (place >= 0 && place < static_cast<std::int64_t>(target_.size.height))
        paint_row(rows.row(range.begin), rows.stride, static_cast<std::size_t>(place));
      ++next_;
    }
  }

  // When all rows are painted.
  void end() {
    finish_streams();
    if (target_.steps.empty()) return;
    has_bytes_ ? change(canvas_, spare_bytes_) : change(exact_canvas_, spare_floats_);
  }

 private:
  Resizer& resizer_for() {
    const bool mirrored = flips_ & kMirrored;
    for (const std::unique_ptr<Resizer>& known : resizers_)
      if (known->fits(from_, to_, target_.scaling, mirrored)) return *known;
    if (resizers_.size() == kResizers) resizers_.erase(resizers_.begin());
    resizers_.push_back(std::make_unique<Resizer>(from_, to_, target_.scaling, mirrored));
    return *resizers_.back();
  }

  // Which pixels of a row lie in the target, and where.
  void find_column() {
    const std::int64_t at = move_.at_left, width = static_cast<std::int64_t>(target_.size.width);
    const std::int64_t begin = std::clamp<std::int64_t>(at, 0, width);
    const std::int64_t end = std::clamp<std::int64_t>(at + static_cast<std::int64_t>(to_.width), begin, width);
    column_ = static_cast<std::size_t>(begin);
    skipped_ = begin > at ? static_cast<std::size_t>(begin - at) : 0;
    pixels_ = static_cast<std::size_t>(end - begin);
  }

  void fill() {
    if (is_whole_) return;
    const std::vector<float> row(target_.size.row(), target_.fill);
    for (std::size_t y = 0; y < target_.size.height; ++y) finish_.write(row.data(), y, 0, target_.size.width);
  }

  template <typename T>
  void paint_row(const T* rows, std::size_t stride, std::size_t y) {
    if (pixels_ == 0) return;
    if (!resizer_) return paint_copy(rows, y);
    const bool is_straight = target_.steps.empty() && skipped_ == 0 && pixels_ == to_.width && !rounds<T>();
    if (float* const place = is_straight ? finish_.place(y, column_) : nullptr) {
      resizer_->make_row(rows, stride, next_, place, is_streamed(target_.size));
      return;
    }
    float* const values = grown(row_, to_.row());
    resizer_->make_row(rows, stride, next_, values, false);
    if (!rounds<T>()) return put(values + skipped_ * to_.channels, y);
    round_values(values, to_.row(), grown(byte_row_, to_.row()));
    put(byte_row_.data() + skipped_ * to_.channels, y);
  }

  // Images that came as floats are not rounded before the end.
  template <typename T>
  bool rounds() const {
    return target_.rounds && std::is_same_v<T, std::uint8_t>;
  }

  template <typename T>
  void paint_copy(const T* row, std::size_t y) {
    if (flips_ & kMirrored) {
      std::vector<T>& mirrored = mirrored_row(row);
      mirror(row, to_.width, to_.channels, grown(mirrored, to_.row()));
      row = mirrored.data();
    }
    put(row + skipped_ * to_.channels, y);
  }
  std::vector<std::uint8_t>& mirrored_row(const std::uint8_t*) { return byte_row_; }
  std::vector<float>& mirrored_row(const float*) { return row_; }

  template <typename T>
  void put(const T* row, std::size_t y) {
    if (target_.steps.empty()) return finish_.write(row, y, column_, pixels_);
    const std::size_t at = y * target_.size.row() + column_ * target_.size.channels;
    if constexpr (std::is_same_v<T, std::uint8_t>)
      std::copy_n(row, pixels_ * target_.size.channels, canvas_.data() + at);
    else
      std::copy_n(row, pixels_ * target_.size.channels, exact_canvas_.data() + at);
  }

  template <typename T>
  void change(std::vector<T>& canvas, std::vector<T>& spare) {
    for (const Step& step : target_.steps)
      change_image(canvas.data(), target_.size, step.change, step.numbers.data() + image_ * number_count(step.change),
                   spare);
    for (std::size_t y = 0; y < target_.size.height; ++y)
      finish_.write(canvas.data() + y * target_.size.row(), y, 0, target_.size.width);
  }

 public:
  // For images that come as floats, which stay floats until the end.
  void expect_floats() {
    if (!has_bytes_) return;
    has_bytes_ = false;
    if (!target_.steps.empty())
      std::fill_n(grown(exact_canvas_, target_.size.values()), target_.size.values(), target_.fill);
  }

 private:
  const Target& target_;
  Finish finish_;
  Move move_{};
  std::uint8_t flips_ = 0;
  std::size_t image_ = 0, next_ = 0;
  ImageSize from_{}, to_{};
  Resizer* resizer_ = nullptr;
  bool is_whole_ = true, has_bytes_ = true;
  std::size_t column_ = 0, skipped_ = 0, pixels_ = 0;
  std::vector<std::unique_ptr<Resizer>> resizers_;
  std::vector<float> row_, exact_canvas_, spare_floats_;
  std::vector<std::uint8_t> byte_row_, canvas_, spare_bytes_;
};

Part whole(ImageSize size) { return {0, 0, size.height, size.width}; }

Codec codec_of(Bytes image) {
  if (image.size() >= 3 && image[0] == 0xff && image[1] == 0xd8 && image[2] == 0xff) return Codec::jpeg;
  if (image.size() >= sizeof kPngSignature && std::memcmp(image.data(), kPngSignature, sizeof kPngSignature) == 0)
    return Codec::png;
  return Codec::other;
}

int orientation_of(Bytes image, Codec codec) {
  return codec == Codec::jpeg ? jpeg_orientation(image) : png_orientation(image);
}

// What one thread needs to decode images, one after the other.
class Worker {
 public:
  explicit Worker(const EncodedImages& encoded) : encoded_(encoded) {}

  Outcome run(Bytes image, const Wish& wish, Taker& taker) {
    words.clear();
    codec_ = codec_of(image);
    if (codec_ == Codec::other) return Outcome::other;
    const Outcome opened = codec_ == Codec::jpeg ? jpeg_.open(image, wish) : png_.open(image, wish);
    if (opened != Outcome::ok) return refused(opened);
    const ImageSize size = codec_ == Codec::jpeg ? jpeg_.size() : png_.size();
    const int orientation = encoded_.is_upright ? orientation_of(image, codec_) : 1;
    Part part;
    if (!taker.place(turned(size, orientation), part)) return Outcome::outside;
    if (orientation != 1) return refused(take_turned(size, orientation, part, taker));
    if (codec_ == Codec::jpeg) return refused(stream(part, taker));
    const Outcome outcome = png_.decode(part);
    if (outcome == Outcome::ok) taker.take({png_.pixels(), png_.stride(), 0, part.height});
    return refused(outcome);
  }

  // Whether every pixel can be decoded.
  Outcome verify(Bytes image, const Wish& wish) {
    words.clear();
    codec_ = codec_of(image);
    if (codec_ == Codec::other) return Outcome::other;
    const Outcome opened = codec_ == Codec::jpeg ? jpeg_.open(image, wish) : png_.open(image, wish);
    if (opened != Outcome::ok) return refused(opened);
    return refused(codec_ == Codec::jpeg ? jpeg_.verify() : png_.decode(whole(png_.size())));
  }

  std::string words;  // of the last image that was refused

 private:
  Outcome refused(Outcome outcome) {
    if (outcome == Outcome::damaged) words = codec_ == Codec::jpeg ? jpeg_.words() : png_.words();
    return outcome;
  }

  // A part of an image that has to be turned first.
  Outcome take_turned(ImageSize size, int orientation, const Part& part, Taker& taker) {
    grow(whole_, size.values());
    const Outcome outcome = codec_ == Codec::png ? read_png(size) : read_jpeg(size);
    if (outcome != Outcome::ok) return outcome;
    grow(turned_, size.values());
    turn(whole_.data(), size, orientation, turned_.data());
    const ImageSize upright = turned(size, orientation);
    const std::size_t first = part.top * upright.row() + part.left * upright.channels;
    taker.take({turned_.data() + first, upright.row(), 0, part.height});
    return Outcome::ok;
  }

  Outcome read_png(ImageSize size) {
    const Outcome outcome = png_.decode(whole(size));
    for (std::size_t y = 0; outcome == Outcome::ok && y < size.height; ++y)
      std::memcpy(whole_.data() + y * size.row(), png_.pixels() + y * png_.stride(), size.row());
    return outcome;
  }

  Outcome read_jpeg(ImageSize size) {
    Outcome outcome = jpeg_.start(whole(size));
    if (outcome == Outcome::ok) outcome = jpeg_.read(whole_.data(), size.row(), size.height);
    return outcome == Outcome::ok ? jpeg_.finish() : outcome;
  }

  // Rows of a JPEG are used while they are in the cache: a few are decoded at a time, and only those needed stay.
  Outcome stream(const Part& part, Taker& taker) {
    Outcome outcome = jpeg_.start(part);
    if (outcome != Outcome::ok) return outcome;
    const std::size_t row = part.width * jpeg_.size().channels;
    if (std::uint8_t* const out = jpeg_.row_bytes() == row ? taker.straight() : nullptr) {
      outcome = jpeg_.read(out, row, part.height);
      return outcome == Outcome::ok ? jpeg_.finish() : outcome;
    }
    const std::size_t stride = (jpeg_.row_bytes() + kStreamed - 1) / kStreamed * kStreamed;
    const std::size_t room = std::min(taker.window() + kAhead, part.height);
    grow(window_, room * stride + kOdd);
    Rows<std::uint8_t> rows{window_.data() + kOdd + jpeg_.offset(), stride, 0, 0};
    while (rows.end < part.height) {
      if (rows.end - rows.first == room) drop(rows, taker.wanted().begin);
      const std::size_t count = std::min(room - (rows.end - rows.first), part.height - rows.end);
      outcome = jpeg_.read(window_.data() + kOdd + (rows.end - rows.first) * stride, stride, count);
      if (outcome != Outcome::ok) return outcome;
      rows.end += count;
      taker.take(rows);
    }
    return jpeg_.finish();
  }

  // Rows before `first` are no longer needed.
  void drop(Rows<std::uint8_t>& rows, std::size_t first) {
    first = std::min(first, rows.end);
    std::uint8_t* const begin = window_.data() + kOdd;
    std::memmove(begin, begin + (first - rows.first) * rows.stride, (rows.end - first) * rows.stride);
    rows.first = first;
  }

  const EncodedImages& encoded_;
  Codec codec_ = Codec::other;
  JpegDecoder jpeg_;
  PngDecoder png_;
  Buffer window_, whole_, turned_;
};

// Work on `count` rows, `step` at a time, by whichever thread is free.
template <typename Work>
void share_rows(std::size_t count, std::size_t step, std::size_t threads, Work&& work) {
  std::atomic<std::size_t> next = 0;
  in_threads(std::max<std::size_t>(1, std::min(threads, (count + step - 1) / step)), [&](std::size_t) {
    auto worker = work();
    for (std::size_t begin = next.fetch_add(step); begin < count; begin = next.fetch_add(step))
      for (std::size_t row = begin; row < std::min(begin + step, count); ++row) {
        breathe(kTask);
        worker(row);
      }
  });
}

class Refusals {
 public:
  void add(std::size_t row, Outcome outcome, const std::string& words) {
    const std::lock_guard lock(mutex_);
    all_.push_back({row, outcome, words});
  }

  std::vector<Refused> sorted() {
    std::sort(all_.begin(), all_.end(), [](const Refused& a, const Refused& b) { return a.row < b.row; });
    return std::move(all_);
  }

 private:
  std::mutex mutex_;
  std::vector<Refused> all_;
};

// Running out of memory for one image does not end the batch; nor does an image that cannot be encoded.
template <typename Work>
Outcome guarded(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Outcome::too_large;
  } catch (const EncodeError&) {
    return Outcome::other;
  }
}

std::size_t image_bytes(const Target& target) { return target.size.values() * size_of(target.dtype); }
std::size_t rows_at_once(const Target& target) { return std::max<std::size_t>(1, kTask / (image_bytes(target) + 1)); }

Move move_of(const Moves& moves, std::size_t row, ImageSize from, ImageSize to) {
  if (!moves.moves.empty()) return moves.moves[row];
  return {0,
          0,
          static_cast<std::int32_t>(from.height),
          static_cast<std::int32_t>(from.width),
          static_cast<std::int32_t>(to.height),
          static_cast<std::int32_t>(to.width),
          0,
          0};
}

bool part_of(const Move& move, ImageSize size, Part& part) {
  if (move.top < 0 || move.left < 0 || move.height < 1 || move.width < 1) return false;
  part = {static_cast<std::size_t>(move.top), static_cast<std::size_t>(move.left),
          static_cast<std::size_t>(move.height), static_cast<std::size_t>(move.width)};
  return part.lies_in(size);
}

std::uint8_t flips_of(const Moves& moves, std::size_t row) { return moves.flips.empty() ? 0 : moves.flips[row]; }

}  // namespace

std::size_t size_of(Dtype dtype) {
  return dtype == Dtype::uint8 ? 1 : dtype == Dtype::float32 ? sizeof(float) : sizeof(std::uint16_t);
}

void check_target(const Target& target, const Moves& moves, std::size_t count) {
  const std::size_t channels = target.size.channels;
  if (target.size.height == 0 || target.size.width == 0 || channels == 0)
    throw std::invalid_argument("images must have at least one pixel");
  if (!moves.moves.empty() && moves.moves.size() != count) throw std::invalid_argument("moves must be one per image");
  if (!moves.flips.empty() && moves.flips.size() != count) throw std::invalid_argument("flips must be one per image");
  for (const Move& move : moves.moves)
    if (move.to_height < 1 || move.to_width < 1) throw std::invalid_argument("a move must have at least one pixel");
  if (target.mean.size() != target.std.size() || (!target.mean.empty() && target.mean.size() != channels))
    throw std::invalid_argument("mean and std must have one number per channel");
  for (const Step& step : target.steps) {
    if (step.numbers.size() != count * number_count(step.change))
      throw std::invalid_argument("a step must have as many numbers per image as its change needs");
    if ((step.change == Change::saturation || step.change == Change::hue) && channels != 3)
      throw std::invalid_argument("saturation and hue are of 3 channels");
    if (!std::all_of(step.numbers.begin(), step.numbers.end(), [](double v) { return std::isfinite(v); }))
      throw std::invalid_argument("the numbers of a step must be finite");
  }
  if (!(target.fill >= 0 && target.fill <= 255)) throw std::invalid_argument("fill must be 0 to 255");
}

namespace {

// Paints the images of a batch.
class BatchTaker final : public Taker {
 public:
  BatchTaker(const Target& target, const Moves& moves, std::uint8_t* out)
      : target_(target), moves_(moves), out_(out), painter_(target) {}

  void begin(std::size_t row) { row_ = row; }
  void end() { painter_.end(); }

  bool place(ImageSize size, Part& part) override {
    const Move move = move_of(moves_, row_, size, target_.size);
    if (!part_of(move, size, part)) return false;
    painter_.begin(move, flips_of(moves_, row_), out_ + row_ * image_bytes(target_), row_);
    return true;
  }
  std::uint8_t* straight() override { return painter_.straight(); }
  Range wanted() const override { return painter_.wanted(); }
  std::size_t window() const override { return painter_.window(); }
  void take(const Rows<std::uint8_t>& rows) override { painter_.paint(rows); }

 private:
  const Target& target_;
  const Moves& moves_;
  std::uint8_t* out_;
  std::size_t row_ = 0;
  Painter painter_;
};

// Takes all of an image as it is.
class WholeTaker final : public Taker {
 public:
  void begin(DecodedImage& image) { image_ = &image; }

  bool place(ImageSize size, Part& part) override {
    part = whole(size);
    image_->size = size;
    image_->pixels = Buffer(size.values());
    return true;
  }
  std::uint8_t* straight() override { return image_->pixels.data(); }
  Range wanted() const override { return {0, image_->size.height}; }
  std::size_t window() const override { return image_->size.height; }
  void take(const Rows<std::uint8_t>& rows) override {
    for (std::size_t y = 0; y < image_->size.height && rows.end == image_->size.height; ++y)
      std::memcpy(image_->pixels.data() + y * image_->size.row(), rows.row(y), image_->size.row());
  }

 private:
  DecodedImage* image_ = nullptr;
};

// Paints images of any size and any number of channels, one at a time, and encodes them.
class RemakingTaker final : public Taker {
 public:
  RemakingTaker(const Target& target, const Moves& moves, const Remaking& remaking)
      : target_(target), moves_(moves), remaking_(remaking), painter_(target_) {}

  void begin(std::size_t row) { row_ = row; }

  RemadeImage end() {
    painter_.end();
    const bool is_jpeg = remaking_.codecs[row_] == Codec::jpeg;
    if (is_jpeg && target_.size.channels == 4) put_on_white();
    return {is_jpeg ? encode_jpeg(pixels_.data(), target_.size, remaking_.quality)
                    : encode_png(pixels_.data(), target_.size),
            target_.size.channels};
  }

  bool place(ImageSize size, Part& part) override {
    const Side side = remaking_.sizes[row_];
    target_.size = {static_cast<std::size_t>(side.height), static_cast<std::size_t>(side.width), size.channels};
    const Move move = move_of(moves_, row_, size, target_.size);
    if (!part_of(move, size, part)) return false;
    grow(pixels_, target_.size.values());
    painter_.begin(move, flips_of(moves_, row_), pixels_.data(), row_);
    return true;
  }
  std::uint8_t* straight() override { return painter_.straight(); }
  Range wanted() const override { return painter_.wanted(); }
  std::size_t window() const override { return painter_.window(); }
  void take(const Rows<std::uint8_t>& rows) override { painter_.paint(rows); }

 private:
  // What is transparent shows white.
  void put_on_white() {
    const std::size_t pixels = target_.size.height * target_.size.width;
    for (std::size_t i = 0; i < pixels; ++i) {
      const std::uint8_t* const in = pixels_.data() + 4 * i;
      const unsigned alpha = in[3];
      for (std::size_t c = 0; c < 3; ++c) pixels_.data()[3 * i + c] = on_white(in[c], alpha);
    }
    target_.size.channels = 3;
  }

  Target target_;  // before the painter, which looks at it
  const Moves& moves_;
  const Remaking& remaking_;
  std::size_t row_ = 0;
  Buffer pixels_;
  Painter painter_;
};

}  // namespace

std::vector<Refused> paint(const EncodedImages& encoded, const Target& target, const Moves& moves, std::uint8_t* out,
                           std::size_t threads) {
  check_target(target, moves, encoded.images.size());
  Wish wish = encoded.wish;
  wish.channels = target.size.channels;
  Refusals refusals;
  share_rows(encoded.images.size(), rows_at_once(target), threads, [&] {
    return [&, worker = std::make_unique<Worker>(encoded),
            taker = std::make_unique<BatchTaker>(target, moves, out)](std::size_t row) {
      taker->begin(row);
      const Outcome outcome = guarded([&] { return worker->run(encoded.images[row], wish, *taker); });
      if (outcome == Outcome::ok)
        taker->end();
      else
        refusals.add(row, outcome, worker->words);
    };
  });
  return refusals.sorted();
}

template <typename T>
std::vector<Refused> paint(std::span<const Pixels<T>> images, const Target& target, const Moves& moves,
                           std::uint8_t* out, std::size_t threads) {
  check_target(target, moves, images.size());
  Refusals refusals;
  share_rows(images.size(), rows_at_once(target), threads, [&] {
    return [&, painter = std::make_unique<Painter>(target)](std::size_t row) {
      const Pixels<T>& image = images[row];
      const Move move = move_of(moves, row, image.size, target.size);
      Part part;
      if (image.size.channels != target.size.channels || !part_of(move, image.size, part))
        return refusals.add(row, Outcome::outside, {});
      painter->begin(move, flips_of(moves, row), out + row * image_bytes(target), row);
      if constexpr (std::is_same_v<T, float>) painter->expect_floats();
      const T* const first = image.data + part.top * image.size.row() + part.left * image.size.channels;
      painter->paint(Rows<T>{first, image.size.row(), 0, part.height});
      painter->end();
    };
  });
  return refusals.sorted();
}

template std::vector<Refused> paint(std::span<const Pixels<std::uint8_t>>, const Target&, const Moves&, std::uint8_t*,
                                    std::size_t);
template std::vector<Refused> paint(std::span<const Pixels<float>>, const Target&, const Moves&, std::uint8_t*,
                                    std::size_t);

std::vector<Refused> decode_each(const EncodedImages& encoded, std::span<DecodedImage> out, std::size_t threads) {
  Refusals refusals;
  share_rows(encoded.images.size(), 1, threads, [&] {
    return [&, worker = std::make_unique<Worker>(encoded), taker = std::make_unique<WholeTaker>()](std::size_t row) {
      taker->begin(out[row]);
      const Outcome outcome = guarded([&] { return worker->run(encoded.images[row], encoded.wish, *taker); });
      if (outcome != Outcome::ok) refusals.add(row, outcome, worker->words);
    };
  });
  return refusals.sorted();
}

std::vector<Refused> verify(const EncodedImages& encoded, std::span<const std::int64_t> rows, std::size_t threads) {
  Wish smallest = encoded.wish, own = encoded.wish;
  smallest.channels = smallest.least_height = smallest.least_width = 1;
  own.channels = 0;
  Refusals refusals;
  share_rows(rows.size(), 1, threads, [&] {
    return [&, worker = std::make_unique<Worker>(encoded)](std::size_t at) {
      const auto row = static_cast<std::size_t>(rows[at]);
      const Bytes image = encoded.images[row];
      const Wish& wish = codec_of(image) == Codec::jpeg ? smallest : own;
      const Outcome outcome = guarded([&] { return worker->verify(image, wish); });
      if (outcome != Outcome::ok) refusals.add(row, outcome, worker->words);
    };
  });
  return refusals.sorted();
}

std::vector<Refused> remake(const EncodedImages& encoded, const Target& target, const Moves& moves,
                            const Remaking& remaking, std::span<RemadeImage> out, std::size_t threads) {
  Refusals refusals;
  share_rows(encoded.images.size(), 1, threads, [&] {
    return [&, worker = std::make_unique<Worker>(encoded),
            taker = std::make_unique<RemakingTaker>(target, moves, remaking)](std::size_t row) {
      if (remaking.codecs[row] == Codec::other) return;
      taker->begin(row);
      const Outcome outcome = guarded([&] {
        const Outcome decoded = worker->run(encoded.images[row], encoded.wish, *taker);
        if (decoded == Outcome::ok) out[row] = taker->end();
        return decoded;
      });
      if (outcome != Outcome::ok) refusals.add(row, outcome, worker->words);
    };
  });
  return refusals.sorted();
}

namespace {

// The end may be anywhere after the pixels, as it may for those who look for it in Python.
bool has_png_end(Bytes image) {
  constexpr std::uint8_t kEnd[] = {'I', 'E', 'N', 'D'};
  return std::find_end(image.begin(), image.end(), std::begin(kEnd), std::end(kEnd)) != image.end();
}

// False if there are no pixels, or no end.
bool read_chunks(Bytes image, const PngHeader& found, EncodedHeader& header) {
  bool has_pixels = false;
  for_each_png_chunk(image, [&](const PngChunk& chunk) {
    has_pixels = chunk.is("IDAT");
    if (chunk.is("acTL")) header.is_animated = chunk.data.size() >= 4 && load_big32(chunk.data.data()) > 1;
    // A transparent colour becomes alpha, except in grey of 16 bits, which nobody decodes with alpha.
    if (chunk.is("tRNS") && !(found.colour == PngColour::grey && found.bits == 16)) header.size.channels = 4;
    return !has_pixels;
  });
  return has_pixels && has_png_end(image);
}

}  // namespace

EncodedHeader read_header(Bytes image) {
  EncodedHeader header;
  const Codec codec = codec_of(image);
  if (codec == Codec::jpeg) {
    JpegFrame found;
    if (!walk_jpeg(image, found, [](Bytes) {}) || found.height == 0 || found.width == 0) return header;
    header.size = {found.height, found.width, found.channels};
    header.bits = found.bits;
  } else if (codec == Codec::png) {
    PngHeader found;
    if (!read_png_header(image, found)) return header;
    const std::size_t stored = found.channels();
    const std::size_t decoded = found.colour == PngColour::palette ? 3 : stored == 2 ? 4 : stored;
    header.size = {found.height, found.width, decoded};
    header.bits = found.bits;
    if (!read_chunks(image, found, header)) return {};
  } else {
    return header;
  }
  header.codec = codec;
  header.orientation = orientation_of(image, codec);
  header.size = turned(header.size, header.orientation);
  return header;
}

}  // namespace bushel
