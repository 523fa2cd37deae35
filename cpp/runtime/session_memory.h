// What graphs of one session have in common: what they pack of constants, and the memory that they run in.
#pragma once

#include "runtime/block_pool.h"
#include "runtime/shared_buffers.h"

namespace dmlcpu {

struct SessionMemory {
  SharedBuffers constants;
  BlockPool blocks;
};

}  // namespace dmlcpu
