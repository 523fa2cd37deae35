#include "bindings/arrays.h"
#include "bindings/register.h"
#include "runtime/thread_pool.h"

// Nothing here relies on the GIL: operators and graphs are dispatched by any number of threads, what is shared is
// atomic or behind a lock, and the dictionaries of bindings belong to their call, but for feeds (item_of in arrays.h).
PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() = "The native part of dmlcpu. Private: use the package.";
  dmlcpu::prepare_numpy();
  dmlcpu::create_thread_pool();
  dmlcpu::register_machine(module);
  dmlcpu::register_compiled_operator(module);
  dmlcpu::register_call_memo(module);
  dmlcpu::register_graph(module);
  dmlcpu::register_feeds(module);
  dmlcpu::register_detection(module);
  dmlcpu::register_nibbles(module);
}
