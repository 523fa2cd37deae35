// Threads of the library's own, apart from those that a program starts.
#pragma once

namespace dmlcpu {

// Starts a thread that nobody joins and that runs body(argument). Signals are the program's: it takes none but those
// that its own instructions raise. It runs on the processors of the process's first thread and of the thread that
// starts it, where the system tells these. Throws std::system_error or std::bad_alloc if there is no thread to be had.
void start_worker_thread(void (*body)(void* argument), void* argument);

}  // namespace dmlcpu
