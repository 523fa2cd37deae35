// The floating-point environment that the arithmetic is defined in.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace dmlcpu {

// Round to nearest even, denormals kept (neither flush-to-zero nor denormals-are-zero), exceptions masked, for the
// lifetime of the object; then the state of before. Held by every thread that computes, whatever the caller had set.
class DefaultFloatEnvironment {
 public:
#if defined(__SSE2__)
  DefaultFloatEnvironment() noexcept : saved_(_mm_getcsr()) {
    if (saved_ != kDefault) _mm_setcsr(kDefault);
  }
  ~DefaultFloatEnvironment() { _mm_setcsr(saved_); }
#else
  DefaultFloatEnvironment() noexcept {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
#endif
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned kDefault = 0x1f80;
  unsigned saved_;
#else
  std::fenv_t saved_;
#endif
};

}  // namespace dmlcpu
