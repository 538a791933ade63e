#include "cuda/recording.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

class GraphRecording final : public Recording {
 public:
  GraphRecording(const Stream& stream, cudaGraph_t graph) : stream_(stream) {
    check("CUDA graph", cudaGraphInstantiate(&executable_, graph, 0));
  }
  ~GraphRecording() override {
    cudaStreamSynchronize(stream_.handle());  // it may be running
    cudaGraphExecDestroy(executable_);
  }
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;
  void replay() override {
    check("CUDA graph", cudaGraphLaunch(executable_, stream_.handle()));
    stream_.launched("a recorded step");
  }

 private:
  const Stream& stream_;
  cudaGraphExec_t executable_ = nullptr;
};

/// Captures the work on the stream from construction to end().
class Capture {
 public:
  // Relaxed: meanwhile other threads may make any CUDA calls on their own streams.
  explicit Capture(const Stream& stream) : stream_(stream) {
    check("CUDA graph", cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeRelaxed));
  }
  ~Capture() {
    if (graph_ == nullptr) cudaStreamEndCapture(stream_.handle(), &graph_);
    cudaGetLastError();  // error of an interrupted capture
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  cudaGraph_t end() {
    check("CUDA graph", cudaStreamEndCapture(stream_.handle(), &graph_));
    return graph_;
  }

 private:
  const Stream& stream_;
  cudaGraph_t graph_ = nullptr;
};

}  // namespace

std::unique_ptr<Recording> record_graph(const Stream& stream, FunctionRef<void()> work) {
  Capture capture(stream);
  work();
  return std::make_unique<GraphRecording>(stream, capture.end());
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
