// The smallest test framework that will do: TEST registers, CHECK says where it failed and goes on.
#pragma once

#include <cstdio>
#include <cstring>
#include <vector>

namespace check {

struct Test {
  const char* suite;
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

inline bool add(const char* suite, const char* name, void (*run)()) {
  tests().push_back({suite, name, run});
  return true;
}

inline bool fail(const char* file, int line, const char* what) {
  if (++failures() <= 20) std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
  return false;
}

}  // namespace check

#define TEST(suite, name)                                                                                \
  static void suite##_##name();                                                                          \
  [[maybe_unused]] static const bool added_##suite##_##name = check::add(#suite, #name, suite##_##name); \
  static void suite##_##name()

#define CHECK(...) ((__VA_ARGS__) || check::fail(__FILE__, __LINE__, #__VA_ARGS__))
