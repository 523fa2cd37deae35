// Working memory of a dispatch: one buffer a calling thread, shared by all operators that the thread runs, so that a
// dispatch allocates nothing once the largest has been seen and the bytes stay warm in cache. It is as large as the
// largest, and shrinks if it is more than twice as large as what the last 2^14 calls needed: more than the steps of a
// network, one of which may need most.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

// At least size bytes, 64-byte aligned, uninitialised, valid until this thread's next call. Throws std::bad_alloc. A
// dispatch takes what it needs in one call, before it writes any output.
std::uint8_t* thread_scratch(std::size_t size);

}  // namespace dmlcpu
