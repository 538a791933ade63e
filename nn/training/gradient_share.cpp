#include "nn/training/gradient_share.h"

#include <bit>

#include "core/backend.h"

namespace normlab {
namespace {

std::int64_t lower_half(std::int64_t lanes) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(lanes)) / 2);
}

Ranks::Received bytes_of(const Tensor& flat, const Stretch& values) {
  const Tensor part = flat.slice(values.begin, values.size());
  return {static_cast<std::byte*>(part.raw()), part.bytes()};
}

}  // namespace

GradientShare::GradientShare(Ranks& ranks, Backend& backend, ParameterSet& parameters, std::int64_t lanes,
                             std::int64_t chunk, std::int64_t chunks, std::span<const Stretch> whole)
    : ranks_(ranks), backend_(backend), exchange_(backend.exchange(ranks)), parameters_(parameters), chunk_(chunk) {
  const std::int64_t n = parameters.trained_size();
  std::vector<std::int64_t> begins;
  for (int r = 0; r < ranks.size(); ++r) {
    add_nodes(r, share_of(lanes, r, ranks.size()), 0, lanes);
    chunks_.push_back(share_of(chunks, r, ranks.size()));
    summed_.push_back({std::min(n, chunks_.back().begin * chunk), std::min(n, chunks_.back().end * chunk)});
    begins.push_back(summed_.back().begin);
    for (const Stretch& range : whole)
      if (range.begin < begins.back() && begins.back() < range.end) begins.back() = range.end;
  }
  begins.push_back(n);
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) values_.push_back({begins[r], begins[r + 1]});
  first_lane_ = share_of(lanes, ranks.rank(), ranks.size()).begin;
  add_merges(0, lanes);
  own_ = summed_[rank()].size();
  received_ = parameters.make_zeroed({std::ssize(nodes_), std::max<std::int64_t>(1, own_)}, parameters.dtype());
  unused_ = parameters.make_zeroed({chunks}, DType::f64);
}

void GradientShare::add_nodes(int rank, const Stretch& own, std::int64_t first, std::int64_t count) {
  const Stretch of_both = overlap(own, {first, first + count});
  if (of_both.size() == 0) return;
  if (of_both.size() == count) return nodes_.push_back({rank, first, count});
  const std::int64_t lower = lower_half(count);
  add_nodes(rank, own, first, lower);
  add_nodes(rank, own, first + lower, count - lower);
}

/// Returns the node that holds the sum of these lanes after the merges.
std::int64_t GradientShare::add_merges(std::int64_t first, std::int64_t count) {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].first == first && nodes_[i].count == count) return static_cast<std::int64_t>(i);
  const std::int64_t lower = lower_half(count);
  const std::int64_t to = add_merges(first, lower), from = add_merges(first + lower, count - lower);
  merges_.push_back({to, from});
  return to;
}

void GradientShare::sum(ShardPool& pool, double* squares) {
  const std::int64_t n = parameters_.trained_size();
  const auto own_node = [&](const Node& node) { return parameters_.flat_lane(node.first - first_lane_); };
  for (const Node& node : nodes_)
    if (node.rank == ranks_.rank() && node.count > 1)
      pool.for_blocks((n + chunk_ - 1) / chunk_, [&](std::int64_t b) {
        const std::int64_t first = b * chunk_;
        backend_.sum_lanes(node.count, n, own_node(node).slice(first, std::min(chunk_, n - first)),
                           unused_.data<double>() + b);
      });
  // Round k sends each rank's k-th node.
  std::vector<std::size_t> next(chunks_.size(), 0);
  for (bool more = true; more;) {
    std::vector<Ranks::Sent> send(chunks_.size());
    std::vector<Ranks::Received> receive(chunks_.size());
    more = false;
    for (std::size_t r = 0; r < chunks_.size(); ++r) {
      while (next[r] < nodes_.size() && nodes_[next[r]].rank != int(r)) ++next[r];
      if (next[r] == nodes_.size()) continue;
      more = true;
      receive[r] = bytes_of(received(std::int64_t(next[r]), 0, own_), {0, own_});
      if (r == rank())
        for (std::size_t other = 0; other < chunks_.size(); ++other)
          send[other] = bytes_of(own_node(nodes_[next[r]]), summed_[other]);
      ++next[r];
    }
    if (more) exchange_.all_to_all(send, receive);
  }
  const Tensor lane0 = parameters_.flat_lane(0);
  pool.for_blocks(chunks().size(), [&](std::int64_t own) {
    const std::int64_t at = own * chunk_, size = std::min(chunk_, own_ - at);
    double* const square = squares + chunks().begin + own;
    const Tensor total = received(0, at, size);
    for (const Merge& m : merges_)
      backend_.sum_lanes(2, (m.from - m.to) * received_.shape()[1], received(m.to, at, size), square);
    if (merges_.empty()) backend_.sum_lanes(1, 0, total, square);
    backend_.copy_gradient(total, {lane0.slice(summed_[rank()].begin + at, size)});
  });
  std::vector<Ranks::Received> of_squares;
  for (const Stretch& range : chunks_)
    of_squares.push_back(std::as_writable_bytes(std::span(squares + range.begin, std::size_t(range.size()))));
  exchange_.all_gather(of_squares);
  // Values that another rank updates because they belong to a matrix that begins there.
  std::vector<Ranks::Sent> send(chunks_.size());
  std::vector<Ranks::Received> receive(chunks_.size());
  bool moves = false;
  for (std::size_t r = 0; r < chunks_.size(); ++r) {
    moves = moves || summed_[r].begin != values_[r].begin;
    if (r == rank()) continue;
    send[r] = bytes_of(lane0, overlap(summed_[rank()], values_[r]));
    receive[r] = bytes_of(lane0, overlap(summed_[r], values_[rank()]));
  }
  if (moves) exchange_.all_to_all(send, receive);
}

void GradientShare::gather_gradient() { gather(parameters_.flat_lane(0), summed_); }

void GradientShare::gather_in_root(const Tensor& flat) {
  std::vector<Ranks::Sent> send(values_.size());
  std::vector<Ranks::Received> receive(values_.size());
  send[0] = bytes_of(flat, values());
  for (std::size_t r = 0; r < values_.size() && ranks_.root(); ++r) receive[r] = bytes_of(flat, values_[r]);
  exchange_.all_to_all(send, receive);
}

void GradientShare::gather(const Tensor& flat, const std::vector<Stretch>& ranges) {
  std::vector<Ranks::Received> parts;
  for (const Stretch& range : ranges) parts.push_back(bytes_of(flat, range));
  exchange_.all_gather(parts);
}

}  // namespace normlab
