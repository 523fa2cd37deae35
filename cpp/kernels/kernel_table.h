// What one instruction set runs: a column for each kernel family. kernels/dispatch.cpp holds a row for each
// instruction set.
#pragma once

#include "kernels/add/add.h"
#include "kernels/block_product/block_product.h"
#include "kernels/cast/cast.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/depthwise_planes/depthwise_planes.h"
#include "kernels/depthwise_window/depthwise_window.h"
#include "kernels/dequantize/dequantize.h"
#include "kernels/dequantized_product/dequantized_product.h"
#include "kernels/few_channels/few_channels.h"
#include "kernels/float_depthwise/float_depthwise.h"
#include "kernels/float_functions/float_functions.h"
#include "kernels/float_pool/float_pool.h"
#include "kernels/float_product/float_product.h"
#include "kernels/gemm/gemm.h"
#include "kernels/grouped/grouped.h"
#include "kernels/interpolate/interpolate.h"
#include "kernels/layer_normalization/layer_normalization.h"
#include "kernels/max_pool/max_pool.h"
#include "kernels/multiply/multiply.h"
#include "kernels/nibbles/nibbles.h"
#include "kernels/overlap/overlap.h"
#include "kernels/pack/pack.h"
#include "kernels/pool/pool.h"
#include "kernels/quantize/quantize.h"
#include "kernels/range/range.h"
#include "kernels/resample/resample.h"
#include "kernels/rescale/rescale.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax_rows/softmax_rows.h"
#include "kernels/table/table.h"
#include "kernels/winograd/winograd.h"
#include "runtime/isa.h"

namespace dmlcpu {

struct KernelTable {
  Isa isa;
  Isa small_products;  // the row whose gemm is faster for few terms by few columns; this one where none is
  const GemmKernels* gemm;
  const DepthwiseKernels* depthwise;
  const DepthwiseWindowKernels* depthwise_window;
  const DepthwisePlanesKernels* depthwise_planes;  // null in rows that transpose planes instead
  const GroupedKernels* grouped;
  const FewChannelsKernels* few_channels;  // null in rows whose products are faster
  const WinogradKernels* winograd;
  const PackKernels* pack;
  const NibblesKernels* nibbles;
  const QuantizeKernels* quantize;
  const DequantizeKernels* dequantize;
  const DequantizedProductKernels* dequantized_product;
  const BlockProductKernels* block_product;
  const AddKernels* add;
  const MultiplyKernels* multiply;
  const RangeKernels* range;
  const MaxPoolKernels* max_pool;
  const TableKernels* table;
  const RescaleKernels* rescale;
  const FloatProductKernels* float_product;
  const FloatDepthwiseKernels* float_depthwise;
  const PoolKernels* pool;
  const FloatPoolKernels* float_pool;
  const FloatFunctionKernels* float_functions;
  const CastKernels* cast;
  const ResampleKernels* resample;
  const InterpolateKernels* interpolate;
  const OverlapKernels* overlap;
  const SoftmaxKernels* softmax;
  const SoftmaxRowsKernels* softmax_rows;  // null in rows that take one row of codes after the other
  const LayerNormalizationKernels* layer_normalization;
};

}  // namespace dmlcpu
