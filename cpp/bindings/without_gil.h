// Work during which other Python threads run.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>

namespace dmlcpu {

// Python before 3.14 ends a thread that asks for the GIL of an interpreter that is shutting down, as a daemon thread
// may, by unwinding its stack. That would release objects without the GIL, and call std::terminate where a destructor
// asked. So the thread waits for the end of the process, as it does in later versions.
[[noreturn]] inline void wait_for_exit() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

inline void retake_gil(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    wait_for_exit();
  }
}

// Calls work() without the GIL, which the caller holds.
template <class Work>
void without_gil(const Work& work) {
  PyThreadState* const state = PyEval_SaveThread();
  try {
    work();
  } catch (...) {
    retake_gil(state);
    throw;
  }
  retake_gil(state);
}

}  // namespace dmlcpu
