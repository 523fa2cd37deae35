// overlap.h on the vectors of masked_floats, until one has a box that overlaps.
// Included, after these, inside the unnamed namespace of a kernel file, which defines
//
//   larger(a, b), smaller(a, b)    b where one is NaN
//   above(a, b), at_least(a, b)    a bit for each lane

// Divides where the quotient may be above `most` alone. It is not where shared < 0.99999 * most * joined, as that
// rounds: rounding keeps the order of two numbers, and changes a quotient, or a product of normal numbers, by 2^-24 of
// it. Below the least share that this is meant for every quotient is looked at.
constexpr float kNearly = 0.99999f, kLeastShare = 1e-30f;

bool overlaps_any(const OverlapRun& run) noexcept {
  if (!(run.box.area > 0)) return false;
  const Floats x_min = spread(run.box.x_min), y_min = spread(run.box.y_min), x_max = spread(run.box.x_max),
               y_max = spread(run.box.y_max), own = spread(run.box.area), most = spread(run.most), none = zeros();
  const Floats nearly = spread(run.most < kLeastShare ? 0 : run.most * kNearly);
  for (std::size_t i = 0; i < run.count; i += kLanes) {
    const Floats width = smaller(x_max, load(run.x_max + i)) - larger(x_min, load(run.x_min + i));
    const Floats height = smaller(y_max, load(run.y_max + i)) - larger(y_min, load(run.y_min + i));
    const Floats area = load(run.area + i), shared = width * height, joined = area + own - shared;
    const unsigned touching = above(width, none) & above(height, none) & above(area, none) & above(joined, none);
    const unsigned near = touching & above(shared, none) & at_least(shared, nearly * joined);
    if (near != 0 && (near & above(shared / joined, most)) != 0) return true;
  }
  return false;
}
