// Norms and activations that are given by formulas, whose kernels are made when they are first needed.
#include "core/arena.h"
#include "core/backend.h"
#include "cuda/cuda_backend.h"
#include "cuda/vectors.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

#ifdef NORMLAB_CUDA_EMULATED
std::map<std::uint64_t, FormulaFunctions>& emulated_formulas() {
  static std::map<std::uint64_t, FormulaFunctions> all;
  return all;
}

std::string (*emulated_formula_compiler)() = [] { return std::string("emulated"); };
std::string FormulaKernels::compiler() { return emulated_formula_compiler(); }

FormulaFunctions FormulaKernels::compile(const formula::Programs& programs, const formula::CudaSource& source) {
  const auto found = emulated_formulas().find(formula::text_hash(source.text));
  if (found == emulated_formulas().end())
    throw InputError(concat("formula: tests/cuda_emulation/formulas.h lacks ", formula::text_of(programs.tree), " for ",
                            programs.graph.site().channels, " channels at this site"));
  return found->second;
}
#else
const Nvrtc& FormulaKernels::nvrtc() {
  if (!nvrtc_) nvrtc_ = std::make_unique<Nvrtc>(CUDART_VERSION / 1000);
  return *nvrtc_;
}

std::string FormulaKernels::compiler() { return nvrtc().words(); }

FormulaFunctions FormulaKernels::compile(const formula::Programs&, const formula::CudaSource& source) {
  const std::vector<char> code = nvrtc().machine_code(source.text, device_info().major, device_info().minor);
  cudaLibrary_t library = nullptr;  // stays loaded as long as the process
  check("formula", cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  const auto kernel = [&](const char* name) {
    cudaKernel_t found = nullptr;
    check("formula", cudaLibraryGetKernel(&found, library, name));
    return reinterpret_cast<FormulaKernel>(found);  // launches take it for a function
  };
  return {kernel("rows"), source.finish_blocks > 0 ? kernel("finish") : nullptr};
}
#endif

const FormulaKernels::Compiled& FormulaKernels::of(const formula::Programs& programs, bool backward, DType dtype,
                                                   int vector) {
  const Compiled*& known = known_[{programs.number, backward, dtype, vector}];
  if (known) return *known;
  formula::CudaSource source = formula::cuda_source(programs, backward, dtype, vector);
  const auto found = by_text_.find(source.text);
  if (found != by_text_.end()) return *(known = &found->second);
  const FormulaFunctions functions = compile(programs, source);
  std::string text = std::exchange(source.text, {});
  return *(known = &by_text_.emplace(std::move(text), Compiled{functions, std::move(source)}).first->second);
}

namespace {

/// As many blocks as an H200's 132 multiprocessors hold: a function of the shape alone, which fixes the order of sums.
std::int64_t rows_of_chunk(const formula::CudaSource& source, FormulaDims d) {
  if (source.by_image) return d.rows;
  const std::int64_t even = ceil_div(d.images * d.rows, 132 * source.blocks), fewest = source.sums ? 4 : 1;
  return (even > fewest * source.teams ? ceil_div(even, source.teams) : fewest) * source.teams;
}

template <class T>
void run_formula(const char* op, FormulaDims d, const FormulaForward& f, const FormulaBackward* b,
                 FormulaKernels& kernels, Buffer& buffer, const Stream& stream) {
  formula::FormulaArguments a{};
  a.x = f.x.data<T>();
  a.gate = f.gate.data<T>();
  a.images = d.images;
  a.rows = d.rows;
  const Gradient out = b ? b->dx : Gradient(f.y);
  a.out = out.to.template data<T>();
  a.lasting = f.lasting.data<Acc<T>>();
  a.adds = int(out && adds(out)) << kMostFormulaParameters;
  if (b) {
    a.dy = b->dy.data<T>();
    a.dgate = b->dgate.to.template data<T>();
    a.adds |= int(b->dgate && adds(b->dgate)) << (kMostFormulaParameters + 1);
  }
  bool wanted = false;
  for (std::size_t p = 0; p < kMostFormulaParameters; ++p) {
    a.parameters[p] = f.parameters[p].data<Acc<T>>();
    if (!b || !b->dparameters[p]) continue;
    wanted = true;
    a.gradients[p] = b->dparameters[p].to.template data<Acc<T>>();
    a.adds |= int(adds(b->dparameters[p])) << p;
  }
  const bool whole = d.cols % kVector<T> == 0 && aligned({a.x, a.gate, a.dy, a.out, a.dgate});
  const FormulaKernels::Compiled& compiled = kernels.of(*f.programs, b, f.x.dtype(), whole ? kVector<T> : 1);
  const formula::CudaSource& source = compiled.source;
  a.chunk_rows = rows_of_chunk(source, d);
  a.chunks = ceil_div(d.images * d.rows, a.chunk_rows);
  a.partial = buffer.get<double>(a.chunks * (source.partial + source.scratch) + 1);
  a.scratch = a.partial + a.chunks * source.partial;
  launch(op, compiled.rows, {a.chunks, source.threads, source.shared}, stream, a);
  if (wanted && source.finish_blocks > 0)
    launch(op, compiled.finish, {source.finish_blocks, formula::kFinishThreads}, stream, a);
}

}  // namespace

void CudaBackend::formula(FormulaDims d, const FormulaForward& f) {
  for_type("formula", f.x.dtype(),
           [&]<class T>(Type<T>) { run_formula<T>("formula", d, f, nullptr, device_->formulas, partial_, stream_); });
}

void CudaBackend::formula_backward(FormulaDims d, const FormulaBackward& b) {
  for_type("formula_backward", b.dy.dtype(), [&]<class T>(Type<T>) {
    run_formula<T>("formula_backward", d, b.forward, &b, device_->formulas, partial_, stream_);
  });
}

std::string CudaBackend::formula_compiler() { return device_->formulas.compiler(); }

std::string CudaBackend::first_nan(FormulaDims d, const FormulaBackward& input) {
  Arena host_memory;
  const auto on_host = [&](const Tensor& t) {
    if (!t) return Tensor();
    const Tensor to = host_memory.empty(t.shape(), t.dtype());
    device_->readback.add(t, to.raw());
    return to;
  };
  const FormulaForward& from = input.forward;
  FormulaBackward host{.forward = {.programs = from.programs, .x = on_host(from.x), .gate = on_host(from.gate)},
                       .dy = on_host(input.dy)};
  for (std::size_t p = 0; p < kMostFormulaParameters; ++p) host.forward.parameters[p] = on_host(from.parameters[p]);
  device_->readback.wait();
  return cpu_backend().first_nan(d, host);
}

namespace {
template <class A>
struct PutProgress {
  const StepState* state;
  A* to;
  __device__ void operator()(std::int64_t) const { *to = A(state->progress); }
};
}  // namespace

void CudaBackend::put_progress(const StepState* state, Tensor to) {
  for_param_type("put_progress", to.dtype(), [&]<class A>(Type<A>) {
    each_element("put_progress", 1, stream_, PutProgress<A>{state, to.data<A>()});
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
