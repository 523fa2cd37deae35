#pragma once

namespace dmlcpu {

// The forks that lie between the process which loaded the library and this one: what a thread of another count has
// begun nobody ends.
unsigned fork_count() noexcept;

}  // namespace dmlcpu
