// Products of gemm.h's kernels with drawn operands, beside their definition.
#pragma once

#include <cstdint>

#include "check.h"

namespace dmlcpu::test {

// Pairs of b are neighbours in k whose sum is within +-128, all or all but one: what vpmaddubsw multiplies exactly. The
// sum of four codes, positive or negative, is within +-128 in quads, or in all but some of them, which are pairs.
// One pair alone, in the last four k of each panel's second half, is beyond in quads_but_last. small_left has any codes
// in b, or small ones but for quads of about twice the sum, and codes up to 127 in a, but for few, some, or many.
enum class Data {
  random,
  most_positive,
  most_negative,
  pairs,
  pairs_but_one,
  quads,
  quads_but_some,
  quads_but_last,
  quads_and_others,  // pairs that are no part of a quad, and some that are no pair
  small_left
};

// Multipliers and activation sums: of any size, or as networks have them (below 1, and up to 2^23, the most that a
// kernel may take a quick way with), or all but one sum so, or with multipliers that keep scaled sums below 2^23.
enum class Terms { any, usual, usual_but_one, scaled };

struct Product {
  std::size_t runs, m, n, k, a_gap, output_gap, rows_apart;  // the last between runs, 0 for any distance
  Data data;
  bool has_filter, ends_in_sums, accumulates;
  std::size_t segments = SIZE_MAX;  // SIZE_MAX for any number
  Terms terms = Terms::any;
  std::size_t offset_step = 1;  // what segments of a begin at multiples of
  std::size_t padding = 0;      // of the only segment
  bool is_of_planes = false;
};

inline std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Multiplies with the kernel of check's table, at both edges of guard pages, and compares each byte of the output.
void check_product(Check& check, const Product& product);

}  // namespace dmlcpu::test
