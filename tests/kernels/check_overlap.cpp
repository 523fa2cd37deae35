#include <algorithm>
#include <array>

#include "check.h"

namespace dmlcpu::test {
namespace {

Box box_of(float x, float y, float width, float height) {
  return {.x_min = x, .y_min = y, .x_max = x + width, .y_max = y + height, .area = width * height};
}

// A few small numbers, whose shares are often equal to a limit; of any size; and hardly any area.
Box some_box(Check& check) {
  const auto number = [&] { return static_cast<float>(check.below(5)); };
  if (check.one_in(16)) return {check.number(), check.number(), check.number(), check.number(), check.number()};
  const float scale = check.one_in(4) ? 0x1p-70f : check.one_in(4) ? 0x1p62f : 0.37f;
  return box_of(number() * scale, number() * scale, number() * scale, number() * scale);
}

bool overlaps(const Box& a, const Box& b, float most) {
  const float width = std::min(a.x_max, b.x_max) - std::max(a.x_min, b.x_min);
  const float height = std::min(a.y_max, b.y_max) - std::max(a.y_min, b.y_min);
  if (!(width > 0 && height > 0 && a.area > 0 && b.area > 0)) return false;
  const float shared = width * height, joined = a.area + b.area - shared;
  return shared > 0 && joined > 0 && shared / joined > most;
}

// What the box overlaps is in one place, or in none.
void check_boxes(Check& check, std::size_t count, bool has_overlap, Edge edge) {
  const Box box = some_box(check);
  const float most = check.one_of<float>({0, 1e-38f, 0.2f, 1.0f / 3, 0.5f, 0.7f, 1});
  std::array<std::vector<float>, 5> fields;
  const std::size_t place = has_overlap && count > 0 ? check.below(count) : count;
  for (std::size_t i = 0; i < count; ++i) {
    Box other = i == place ? box : some_box(check);
    for (int tries = 0; overlaps(other, box, most) && i != place && tries < 8; ++tries) other = some_box(check);
    const float values[] = {other.x_min, other.y_min, other.x_max, other.y_max, other.area};
    for (std::size_t field = 0; field < 5; ++field) fields[field].push_back(values[field]);
  }
  bool expected = false;
  for (std::size_t i = 0; i < count; ++i) {
    expected |= overlaps({fields[0][i], fields[1][i], fields[2][i], fields[3][i], fields[4][i]}, box, most);
  }
  const GuardedBuffer<float> x_min(fields[0], edge), y_min(fields[1], edge), x_max(fields[2], edge),
      y_max(fields[3], edge), area(fields[4], edge);
  describe_case("overlap count %zu, most %g, edge %d", count, static_cast<double>(most), static_cast<int>(edge));
  check.expect(check.table.overlap->overlaps({.x_min = x_min.data(),
                                              .y_min = y_min.data(),
                                              .x_max = x_max.data(),
                                              .y_max = y_max.data(),
                                              .area = area.data(),
                                              .count = count,
                                              .box = box,
                                              .most = most}) == expected);
}

}  // namespace

void check_overlap(Check& check) {
  for (const Edge edge : kEdges) {
    for (const std::size_t blocks : Sizes{0, 1, 2, 3, 7}) {
      for (int repetition = 0; repetition < 100; ++repetition) {
        check_boxes(check, blocks * kBoxesABlock, repetition % 2 == 0, edge);
      }
    }
  }
}

}  // namespace dmlcpu::test
