// Runs the tests of the suites named as arguments; all of them if none is.
#include "check.h"

int main(int argc, char** argv) {
  int run = 0;
  for (const check::Test& test : check::tests()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::strcmp(argv[i], test.suite) == 0;
    if (!wanted) continue;
    const int before = check::failures();
    test.run();
    ++run;
    if (check::failures() != before) std::fprintf(stderr, "FAILED %s: %s\n", test.suite, test.name);
  }
  std::printf("%d tests, %d checks failed\n", run, check::failures());
  return run > 0 && check::failures() == 0 ? 0 : 1;
}
