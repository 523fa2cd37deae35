// A quantized convolution of oneDNN on NHWC tensors, for Python through ctypes.
#include <cstdint>
#include <exception>
#include <string>
#include <unordered_map>

#include "dnnl.hpp"

extern "C" void omp_set_num_threads(int count);  // of the OpenMP runtime that oneDNN brings

namespace {

using dnnl::memory;

std::string last_error;

struct Sizes {
  std::int64_t batch, channels, height, width, filters, kernel_height, kernel_width, stride_height, stride_width,
      padding_height, padding_width, dilation_height, dilation_width, groups, output_height, output_width;
};

struct Convolution {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::convolution_forward primitive;
  std::unordered_map<int, memory> arguments;
};

memory float_values(const dnnl::engine& engine, const float* values, std::int64_t count) {
  memory result({{count}, memory::data_type::f32, memory::format_tag::x}, engine);
  auto* target = static_cast<float*>(result.get_data_handle());
  for (std::int64_t i = 0; i < count; ++i) target[i] = values[i];
  return result;
}

memory int_value(const dnnl::engine& engine, std::int32_t value) {
  memory result({{1}, memory::data_type::s32, memory::format_tag::x}, engine);
  *static_cast<std::int32_t*>(result.get_data_handle()) = value;
  return result;
}

Convolution* create(const Sizes& s, bool is_signed, int input_zero_point, int output_zero_point, const float* scales,
                    const void* filter, const float* filter_scales, const float* bias) {
  auto* convolution = new Convolution;
  const dnnl::engine& engine = convolution->engine;
  const auto codes = is_signed ? memory::data_type::s8 : memory::data_type::u8;
  const bool grouped = s.groups > 1;
  const memory::dims filter_sizes =
      grouped ? memory::dims{s.groups, s.filters / s.groups, s.channels / s.groups, s.kernel_height, s.kernel_width}
              : memory::dims{s.filters, s.channels, s.kernel_height, s.kernel_width};
  const memory::desc input({s.batch, s.channels, s.height, s.width}, codes, memory::format_tag::nhwc);
  const memory::desc output({s.batch, s.filters, s.output_height, s.output_width}, codes, memory::format_tag::nhwc);
  const memory::desc any_filter(filter_sizes, memory::data_type::s8, memory::format_tag::any);
  const memory::desc bias_desc({s.filters}, memory::data_type::f32, memory::format_tag::x);

  dnnl::primitive_attr attributes;
  attributes.set_scales_mask(DNNL_ARG_SRC, 0);
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, grouped ? 3 : 1);
  attributes.set_scales_mask(DNNL_ARG_DST, 0);
  attributes.set_zero_points_mask(DNNL_ARG_SRC, 0);
  attributes.set_zero_points_mask(DNNL_ARG_DST, 0);
  const dnnl::convolution_forward::primitive_desc desc(
      engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, input, any_filter, bias_desc,
      output, {s.stride_height, s.stride_width}, {s.dilation_height - 1, s.dilation_width - 1},
      {s.padding_height, s.padding_width},
      {(s.output_height - 1) * s.stride_height + (s.kernel_height - 1) * s.dilation_height + 1 - s.height -
           s.padding_height,
       (s.output_width - 1) * s.stride_width + (s.kernel_width - 1) * s.dilation_width + 1 - s.width - s.padding_width},
      attributes);
  convolution->primitive = dnnl::convolution_forward(desc);

  memory plain({filter_sizes, memory::data_type::s8, grouped ? memory::format_tag::goihw : memory::format_tag::oihw},
               engine, const_cast<void*>(filter));
  memory packed(desc.weights_desc(), engine);
  dnnl::reorder(plain, packed).execute(convolution->stream, plain, packed);
  convolution->stream.wait();
  convolution->arguments = {{DNNL_ARG_SRC, memory(input, engine, nullptr)},
                            {DNNL_ARG_WEIGHTS, packed},
                            {DNNL_ARG_BIAS, float_values(engine, bias, s.filters)},
                            {DNNL_ARG_DST, memory(output, engine, nullptr)},
                            {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, float_values(engine, scales, 1)},
                            {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, float_values(engine, filter_scales, s.filters)},
                            {DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, float_values(engine, scales + 1, 1)},
                            {DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, int_value(engine, input_zero_point)},
                            {DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, int_value(engine, output_zero_point)}};
  return convolution;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return version->major * 10000 + version->minor * 100 + version->patch;
}

EXPORT const char* onednn_convolution_error() { return last_error.c_str(); }

// Holds for the process, from before the first primitive on; isa is oneDNN's name. False if it cannot be held to.
EXPORT int onednn_configure(const char* isa, int num_threads) {
  omp_set_num_threads(num_threads);
  const std::unordered_map<std::string, dnnl::cpu_isa> known = {{"AVX2", dnnl::cpu_isa::avx2},
                                                                {"AVX2_VNNI", dnnl::cpu_isa::avx2_vnni},
                                                                {"AVX512_CORE_VNNI", dnnl::cpu_isa::avx512_core_vnni},
                                                                {"AVX512_CORE_AMX", dnnl::cpu_isa::avx512_core_amx},
                                                                {"DEFAULT", dnnl::cpu_isa::isa_default}};
  return dnnl::set_max_cpu_isa(known.at(isa)) == dnnl::status::success;
}

// sizes is Sizes as an array; scales are input and output. Null on failure, see onednn_convolution_error.
EXPORT void* onednn_convolution_create(const std::int64_t* sizes, int is_signed, int input_zero_point,
                                       int output_zero_point, const float* scales, const void* filter,
                                       const float* filter_scales, const float* bias) {
  try {
    return create(*reinterpret_cast<const Sizes*>(sizes), is_signed != 0, input_zero_point, output_zero_point, scales,
                  filter, filter_scales, bias);
  } catch (const std::exception& error) {
    last_error = error.what();
    return nullptr;
  }
}

EXPORT void onednn_convolution_run(void* handle, const void* input, void* output) {
  auto* convolution = static_cast<Convolution*>(handle);
  convolution->arguments.at(DNNL_ARG_SRC).set_data_handle(const_cast<void*>(input));
  convolution->arguments.at(DNNL_ARG_DST).set_data_handle(output);
  convolution->primitive.execute(convolution->stream, convolution->arguments);
  convolution->stream.wait();
}
