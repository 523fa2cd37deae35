// Which boxes are kept of those that overlap (ONNX's NonMaxSuppression): not an operator of DirectML, since only the
// values tell how many there are.
//
// Of each image and class the boxes are met from the highest score to the lowest, of equal ones the first first; one
// that overlaps a box that was kept by more than a share (kernels/overlap/overlap.h) is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "operators/operator.h"

namespace dmlcpu {

struct CandidateBoxes {
  const float* corners;  // {images, boxes, 4}: two opposite corners y, x, y, x, or centred x, y, width, height
  const float* scores;   // {images, classes, boxes}
  std::size_t images, classes, boxes;  // below 2^32 boxes
  bool centred;
};

struct SuppressionLimits {
  std::size_t kept_boxes;      // of an image's class, at most
  float overlap;               // the share
  std::optional<float> score;  // only boxes with more are met; without it, those of no number last
};

struct KeptBox {
  std::int64_t image, label, box;
};

// In the order of images, classes and scores.
std::vector<KeptBox> non_max_suppression(const CandidateBoxes& candidates, const SuppressionLimits& limits,
                                         const ExecutionTarget& target);

}  // namespace dmlcpu
