#include "operators/detection/non_max_suppression.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <new>

#include "kernels/dispatch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Boxes in arrays of each corner, as kernels read them, in whole blocks; those that there are not have no area.
class BoxArrays {
 public:
  explicit BoxArrays(std::size_t capacity)
      : capacity_((capacity + kBoxesABlock - 1) / kBoxesABlock * kBoxesABlock), values_(5 * capacity_) {}

  void add(const Box& box) {
    float* const place = values_.data() + count_++;
    place[0] = box.x_min;
    place[capacity_] = box.y_min;
    place[2 * capacity_] = box.x_max;
    place[3 * capacity_] = box.y_max;
    place[4 * capacity_] = box.area;
  }

  bool overlap(const Box& box, float most, const OverlapKernels& kernels) const {
    const float* const values = values_.data();
    return kernels.overlaps({.x_min = values,
                             .y_min = values + capacity_,
                             .x_max = values + 2 * capacity_,
                             .y_max = values + 3 * capacity_,
                             .area = values + 4 * capacity_,
                             .count = (count_ + kBoxesABlock - 1) / kBoxesABlock * kBoxesABlock,
                             .box = box,
                             .most = most});
  }

 private:
  std::size_t capacity_, count_ = 0;
  std::vector<float> values_;
};

Box box_of(const float* corners, bool centred) {
  Box box;
  if (centred) {
    const float width = corners[2] / 2, height = corners[3] / 2;
    box.x_min = corners[0] - width;
    box.x_max = corners[0] + width;
    box.y_min = corners[1] - height;
    box.y_max = corners[1] + height;
  } else {
    box.y_min = std::min(corners[0], corners[2]);
    box.y_max = std::max(corners[0], corners[2]);
    box.x_min = std::min(corners[1], corners[3]);
    box.x_max = std::max(corners[1], corners[3]);
  }
  box.area = (box.x_max - box.x_min) * (box.y_max - box.y_min);
  return box;
}

// A number that grows as a score falls, and with the index among equal scores. Of what is no number it is the largest.
std::uint64_t rank_of(float score, std::size_t index) {
  std::uint32_t falling = ~std::uint32_t{0};
  if (!std::isnan(score)) {
    const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // of both zeros the same
    falling = (bits >> 31) != 0 ? bits : ~bits & 0x7FFFFFFF;
  }
  return std::uint64_t{falling} << 32 | index;
}

std::vector<std::uint64_t> ranked(const float* scores, std::size_t count, const std::optional<float>& least) {
  std::vector<std::uint64_t> ranks;
  for (std::size_t i = 0; i < count; ++i) {
    if (!least || scores[i] > *least) ranks.push_back(rank_of(scores[i], i));
  }
  return ranks;
}

// So many of the best are sorted first: often these are all that are met.
constexpr std::size_t kFirstSorted = 512;

std::vector<std::int64_t> kept_of_class(const Box* boxes, std::vector<std::uint64_t> ranks,
                                        const SuppressionLimits& limits, const OverlapKernels& kernels) {
  std::vector<std::int64_t> kept;
  const std::size_t most = std::min(limits.kept_boxes, ranks.size());
  BoxArrays others(most);
  auto sorted = ranks.begin();
  for (auto next = ranks.begin(); next != ranks.end() && kept.size() < most; ++next) {
    if (next == sorted) {
      const auto wanted = std::max<std::ptrdiff_t>(kFirstSorted, sorted - ranks.begin());
      sorted += std::min(wanted, ranks.end() - sorted);
      if (sorted != ranks.end()) std::nth_element(next, sorted, ranks.end());
      std::sort(next, sorted);
    }
    const auto index = static_cast<std::uint32_t>(*next);
    if (others.overlap(boxes[index], limits.overlap, kernels)) continue;
    others.add(boxes[index]);
    kept.push_back(index);
  }
  return kept;
}

}  // namespace

std::vector<KeptBox> non_max_suppression(const CandidateBoxes& candidates, const SuppressionLimits& limits,
                                         const ExecutionTarget& target) {
  const OverlapKernels& kernels = *target.kernels().overlap;
  std::vector<Box> boxes(candidates.images * candidates.boxes);
  for (std::size_t i = 0; i < boxes.size(); ++i) boxes[i] = box_of(candidates.corners + 4 * i, candidates.centred);
  std::vector<std::vector<std::int64_t>> kept(candidates.images * candidates.classes);
  std::atomic<bool> has_failed = false;
  parallel_for(kept.size(), target.num_threads, [&](std::size_t task, int) noexcept {
    const float* const scores = candidates.scores + task * candidates.boxes;
    const Box* const of_image = boxes.data() + task / candidates.classes * candidates.boxes;
    try {
      kept[task] = kept_of_class(of_image, ranked(scores, candidates.boxes, limits.score), limits, kernels);
    } catch (const std::bad_alloc&) {
      has_failed = true;
    }
  });
  if (has_failed) throw std::bad_alloc();
  std::vector<KeptBox> result;
  for (std::size_t task = 0; task < kept.size(); ++task) {
    const auto image = static_cast<std::int64_t>(task / candidates.classes);
    const auto label = static_cast<std::int64_t>(task % candidates.classes);
    for (const std::int64_t box : kept[task]) result.push_back({image, label, box});
  }
  return result;
}

}  // namespace dmlcpu
