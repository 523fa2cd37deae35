#include "gemm_product.h"

namespace dmlcpu::test {
namespace {

// Around the sizes of a tile.
void check_tiles(Check& check) {
  const std::size_t mr = check.table.gemm->mr, nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const std::size_t k : Sizes{kr, 2 * kr, 3 * kr, round_up(200, kr)}) {
    for (const std::size_t n : Sizes{1, nr / 2, nr / 2 + 1, nr - 1, nr, nr + 1, 2 * nr, 3 * nr + 5}) {
      for (std::size_t m = 0; m <= 2 * mr + 5; ++m) {
        const Data data = check.one_of<Data>({Data::random, Data::random, Data::most_positive, Data::most_negative});
        check_product(check, {check.below(4), m, n, k, check.below(3) * 5, check.below(3), 0, data, check.one_in(2),
                              check.one_in(3), check.one_in(2)});
      }
    }
  }
}

// Sums beyond int32: 255 * 128 * k.
void check_overflow(Check& check) {
  const std::size_t mr = check.table.gemm->mr, nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const Data data : {Data::most_positive, Data::most_negative}) {
    for (const bool sums : {false, true}) {
      check_product(check, {2, mr + 1, nr + 1, round_up(70000, kr), 0, 0, 0, data, true, sums, sums});
    }
  }
}

void check_random(Check& check, std::size_t runs, std::size_t m, std::size_t n, std::size_t k, std::size_t rows_apart,
                  std::size_t segments = SIZE_MAX) {
  const std::size_t kr = check.table.gemm->kr;
  check_product(check, {runs, m, n, k, check.below(2) * kr, check.below(3), rows_apart, Data::random, check.one_in(2),
                        check.one_in(3), check.one_in(2), segments});
}

// Pairs of codes that some kernels multiply otherwise.
void check_pairs(Check& check) {
  const std::size_t mr = check.table.gemm->mr, nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const Data data : {Data::pairs, Data::pairs_but_one, Data::quads, Data::quads_but_some, Data::quads_and_others,
                          Data::small_left}) {
    for (const std::size_t k : Sizes{kr, round_up(70, kr), round_up(700, kr)}) {
      for (const std::size_t m : Sizes{std::size_t{1}, mr - 1, mr, 2 * mr + 1, std::size_t{40}}) {
        for (const std::size_t n : Sizes{1, 3, nr / 2 - 1, nr / 2, nr / 2 + 1, nr, 2 * nr + 4, 3 * nr - 3}) {
          check_product(check, {1 + check.below(4), m, n, k, check.below(2) * 5, check.below(2), 0, data,
                                check.one_in(3), check.one_in(4), check.one_in(2)});
        }
      }
    }
  }
}

// Zero points of filters, codes, and what a kernel may finish in other ways.
void check_terms(Check& check) {
  const std::size_t mr = check.table.gemm->mr, nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const Terms terms : {Terms::usual, Terms::usual_but_one, Terms::scaled}) {
    for (const std::size_t m : Sizes{std::size_t{1}, std::size_t{2}, 2 * mr + 1, 2 * mr + 2, 2 * mr + 3, 2 * mr + 5,
                                     std::size_t{40}, std::size_t{57}}) {
      for (const std::size_t n : Sizes{1, 16, 17, 31, 33, 48, 53, 64}) {
        check_product(check, {1, m, n, kr * (1 + check.below(3)), 0, 0, 0, Data::random, true, false, false, 1, terms});
        if (terms == Terms::scaled) {
          check_product(check,
                        {2, m, n, kr * (1 + check.below(3)), 0, 0, 0, Data::random, false, false, false, 1, terms});
        }
      }
    }
    for (const std::size_t k : Sizes{round_up(700, kr), round_up(1500, kr)}) {
      for (const std::size_t m : Sizes{std::size_t{49}, std::size_t{64}, std::size_t{196}}) {
        check_product(check, {1, m, 5 * nr + 9, k, 0, 0, 0, Data::random, true, false, false, 1, terms});
      }
    }
  }
}

// Short runs at a regular distance.
void check_short_runs(Check& check) {
  const std::size_t nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (std::size_t m = 1; m <= 12; ++m) {
    for (const std::size_t rows_apart : Sizes{m, m + 1, m + 2, 2 * m, 2 * m + 1}) {
      for (const std::size_t runs : Sizes{std::size_t{2}, m, std::size_t{13}}) {
        check_random(check, runs, m, 1 + check.below(3 * nr), kr * (1 + check.below(3)), rows_apart);
      }
    }
  }
}

// Operands that fit no cache, or one of them.
void check_large_operands(Check& check) {
  const std::size_t nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const std::size_t k : Sizes{round_up(400, kr), round_up(900, kr), round_up(1500, kr)}) {
    for (const std::size_t n : Sizes{nr + 1, 5 * nr, 7 * nr - 1}) {
      for (const std::size_t m : Sizes{std::size_t{7}, std::size_t{14}, std::size_t{49}, std::size_t{75}}) {
        check_random(check, 1 + check.below(6), m, n, k, check.below(2) * (m + 2));
      }
    }
  }
  check_random(check, 5, 14, 300, round_up(1400, kr), 16);
  // Many quads, and in many segments; more than a kernel may keep.
  for (const Data data : {Data::quads_but_some, Data::quads_and_others, Data::small_left}) {
    for (const std::size_t segments : Sizes{3, 64, 65, 70}) {
      const std::size_t k = round_up(segments < 10 ? 1100 : 40, kr);
      check_product(check, {1, 30, nr + 3, k, 0, 0, 0, data, true, false, false, segments});
    }
    for (const std::size_t k : Sizes{4608, 4612, 10232, 10240, 10244}) {
      check_product(check, {1, 30, nr + 3, round_up(k, kr), 0, 0, 0, data, false, false, false, 1});
    }
  }
  for (const std::size_t k : Sizes{round_up(4, kr), round_up(12, kr), round_up(700, kr)}) {
    check_product(check, {1, 30, 2 * nr, k, 0, 0, 0, Data::quads_but_last, false, false, false, 1});
  }
  // No terms: sums are offsets.
  for (const std::size_t n : Sizes{nr, 4 * nr + 1}) {
    for (const std::size_t m : Sizes{1, 6, 30}) {
      for (const std::size_t segments : Sizes{0, 1, 2}) {
        check_product(check, {1, m, n, segments == 0 ? kr : 0, 0, 0, 0, Data::random, false, false, false, segments});
      }
    }
  }
}

// Rows that begin at whole cache lines, which kernels may read where they stand.
void check_rows_in_place(Check& check) {
  const std::size_t kr = check.table.gemm->kr, line = 64;
  for (const Terms terms : {Terms::scaled, Terms::any}) {
    // Products of several steps and of one, some rows at a time: others may be finished beside them.
    for (const std::size_t steps : Sizes{1, 3, 4, 5, 6, 9, 17}) {
      for (const std::size_t m : Sizes{33, 64, 70, 90}) {
        const std::size_t segments = steps % 3 == 0 ? 3 : 1, k = round_up(line * steps / segments, kr);
        check_product(check, {1, m, 96 + 16 * check.below(3) + check.below(2), k, 0, check.below(2), m, Data::random,
                              check.one_in(2), check.one_in(8), false, segments, terms, line});
      }
      check_product(check, {9, 7, 64, round_up(line * steps, kr), 0, 0, 9, Data::random, check.one_in(2), false, false,
                            1, terms, line});
    }
    // Few rows, and a right operand that level 2 may not hold.
    for (const std::size_t m : Sizes{33, 49, 64}) {
      check_product(check, {1, m, 832 + check.below(2) * 9, round_up(640, kr), 0, 0, m, Data::random, check.one_in(2),
                            check.one_in(4), check.one_in(2), 1, terms, line});
    }
    check_product(check, {7, 7, 833, round_up(320, kr), 0, 0, 9, Data::random, check.one_in(2), check.one_in(4), false,
                          2, terms, line});
  }
}

// Codes that are made beside the products of other rows: of exactly as many terms as that takes, in one segment and in
// several, by a right operand that is taken in parts, and by one that is not streamed.
void check_codes_among_products(Check& check) {
  const GemmKernels& gemm = *check.table.gemm;
  const std::size_t kr = gemm.kr, line = 64;
  for (const bool has_filter : {false, true}) {
    const auto check_scaled = [&](std::size_t m, std::size_t n, std::size_t k, std::size_t segments) {
      check_product(check, {1, m, n, round_up(k, kr), 0, 0, m, Data::random, has_filter, false, false, segments,
                            Terms::scaled, line});
    };
    for (const std::size_t segments : Sizes{1, 2, 4}) check_scaled(64, 96, 256 / segments, segments);
    check_scaled(64, 64, 256, 1);
    check_scaled(70, 600, 2048, 1);
    check_scaled(33, 832, 640, 1);
  }
}

// Rows that end amid a step, at all places of a line and in all classes of these, and of whole lines with a further
// step.
void check_exact_rows(Check& check) {
  const GemmKernels& gemm = *check.table.gemm;
  const auto check_rows = [&](std::size_t m, std::size_t n, std::size_t terms, std::size_t k, std::size_t a_gap) {
    check_product(check, {1, m, n, k, a_gap, check.below(2) * 3, m, Data::random, check.one_in(4), check.one_in(4),
                          check.one_in(2), 1, check.one_of<Terms>({Terms::scaled, Terms::any}),
                          check.one_of<std::size_t>({1, 16, 64}), k - terms});
  };
  for (const std::size_t terms : Sizes{1, 4, 16, 24, 32, 48, 63, 65, 96, 112, 144, 240, 304, 672}) {
    const std::size_t k = round_up(terms, gemm.kr);
    if (terms > gemm.most_exact_terms) continue;
    for (const std::size_t m : Sizes{1, 17, 97, 193, 199}) {
      check_rows(m, 1 + check.below(140), terms, k, 0);
      check_rows(m, 1 + check.below(140), terms, round_up(terms + 48, gemm.kr), check.below(2) * 16);
    }
    check_rows(50, 300, terms, k, 0);
  }
  // Several segments and runs, as those of images, some of which are too far apart to be cut as one.
  for (const std::size_t terms : Sizes{33, 96, 160, 288}) {
    const std::size_t k = round_up(terms + 48, gemm.kr), step = 32;
    if (3 * k > gemm.most_exact_terms) continue;
    for (const std::size_t m : Sizes{1, 2, 7, 28, 33, 56}) {
      const std::size_t runs = 1 + 150 / m, gap = round_up(terms, step) - terms + check.below(2) * step;
      check_product(check, {runs, m, 1 + check.below(200), k, gap, check.below(2), m + m % 2 + check.below(2) * 2,
                            Data::random, check.one_in(3), check.one_in(4), false, 3, Terms::scaled,
                            check.one_of<std::size_t>({32, 64}), k - terms});
    }
  }
  for (const std::size_t terms : Sizes{64, 192, 576, 1536, 2048}) {
    if (!gemm.loads_rows_as_tiles) continue;
    for (const std::size_t m : Sizes{5, 40, 70})
      check_rows(m, 20 + check.below(60), terms, terms + gemm.kr, check.below(2) * 64);
  }
}

// Filters by planes: around the sizes of tiles, areas and steps, by rows that stand in lines or anywhere.
void check_planes(Check& check) {
  const GemmKernels& gemm = *check.table.gemm;
  if (!gemm.multiplies_planes) return;
  const auto check_sizes = [&](std::size_t m, std::size_t n, std::size_t steps, Data data, Terms terms) {
    const std::size_t segments = check.one_in(3) ? steps : 1, k = gemm.kr * steps / segments;
    check_product(check,
                  {1, m, n, k, check.below(2) * 64, check.below(2) * 7, 0, data, check.one_in(2), check.one_in(4),
                   check.one_in(2), segments, terms, check.one_of<std::size_t>({1, 64, 64}), 0, true});
  };
  for (const std::size_t m : Sizes{1, 2, 15, 16, 17, 31, 32, 33, 48, 49, 64, 65, 70, 96, 130}) {
    for (const std::size_t n : Sizes{1, 15, 16, 17, 31, 32, 33, 49, 64, 96, 131}) {
      check_sizes(m, n, 1 + check.below(6), Data::random, check.one_of<Terms>({Terms::scaled, Terms::any}));
    }
  }
  for (const Terms terms : {Terms::usual, Terms::usual_but_one, Terms::scaled}) {
    for (const std::size_t steps : Sizes{1, 2, 3, 4, 5, 9, 17}) {
      for (const std::size_t n : Sizes{64, 80, 97}) check_sizes(70 + check.below(60), n, steps, Data::random, terms);
    }
  }
  for (const Data data : {Data::most_positive, Data::most_negative}) check_sizes(40, 70, 1100, data, Terms::any);
  check_sizes(64, 832, 20, Data::random, Terms::scaled);
  check_sizes(130, 600, 32, Data::random, Terms::scaled);
}

// More segments and more panels than a kernel may take at a time.
void check_many_segments(Check& check) {
  const std::size_t nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const std::size_t segments :
       Sizes{std::size_t{31}, std::size_t{32}, std::size_t{33}, std::size_t{64}, std::size_t{65}, std::size_t{129}}) {
    for (const std::size_t k : Sizes{kr, 5 * kr}) check_random(check, 2, 7, nr + 9, k, 0, segments);
  }
  for (const std::size_t panels :
       Sizes{std::size_t{15}, std::size_t{16}, std::size_t{17}, std::size_t{32}, std::size_t{33}}) {
    check_random(check, 2, 8, panels * nr, kr, 0, 1);
    check_random(check, 2, 8, panels * nr + 9, kr, 0, 2);
  }
}

// Rows too long for the level-1 cache, in one segment.
void check_long_rows(Check& check) {
  const std::size_t nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const std::size_t m : Sizes{std::size_t{1}, std::size_t{20}, std::size_t{49}, std::size_t{75}}) {
    for (const std::size_t n : Sizes{nr, 2 * nr, 3 * nr + 1, 7 * nr - 1}) {
      check_random(check, 1, m, n, round_up(2100 + check.below(300), kr), 0, 1);
    }
  }
  // The same for a few panels more, which a kernel may multiply by ranges of k: of a segment, or of some.
  for (const std::size_t m : Sizes{std::size_t{33}, std::size_t{70}}) {
    for (const std::size_t panels : Sizes{std::size_t{9}, std::size_t{10}, std::size_t{11}, std::size_t{12}}) {
      check_random(check, 1, m, panels * nr - check.below(nr), round_up(1200 + check.below(300), kr), 0, 1);
      check_random(check, 1, m, panels * nr - check.below(nr), round_up(400 + check.below(100), kr), 0, 3);
      check_random(check, 1, m, panels * nr - check.below(nr), kr * (1 + check.below(2)), 0, 17);
    }
  }
}

}  // namespace

void check_gemm(Check& check) {
  const GemmKernels& gemm = *check.table.gemm;
  describe_case("gemm: sizes of the tile");
  check.expect(gemm.mr >= 1 && gemm.kr % 4 == 0 && gemm.nr * gemm.kr % 64 == 0 && gemm.nr % 16 == 0);
  check.expect(gemm.loads_rows_as_tiles ? gemm.kr % 64 == 0 && gemm.most_exact_terms != 0
                                        : gemm.most_exact_terms == 0 && gemm.least_columns == gemm.nr);
  check_tiles(check);
  check_overflow(check);
  check_pairs(check);
  check_terms(check);
  check_short_runs(check);
  check_large_operands(check);
  check_rows_in_place(check);
  check_exact_rows(check);
  check_codes_among_products(check);
  check_planes(check);
  check_many_segments(check);
  check_long_rows(check);
}

}  // namespace dmlcpu::test