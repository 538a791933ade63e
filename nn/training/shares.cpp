#include "nn/training/shares.h"

#include <bit>
#include <cstring>

#include "core/backend.h"

namespace normlab {
namespace {

std::int64_t lower_half(std::int64_t lanes) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(lanes)) / 2);
}

Exchange::Received bytes_of(const Tensor& flat, const Stretch& values) {
  const Tensor part = flat.slice(values.begin, values.size());
  return {static_cast<std::byte*>(part.raw()), part.bytes()};
}

}  // namespace

Stretch share_of(std::int64_t n, int number, int size) {
  const auto at = [&](std::int64_t r) { return (r * n + size - 1) / size; };
  return {at(number), at(number + 1)};
}

ShardShare::ShardShare(Group& group, const ShardPlan& plan, std::int64_t images, std::int64_t lanes, bool all_run)
    : group_(group), plan_(plan), images_(images), lanes_(lanes), repeats_(all_run && count_of(group.number()) == 0) {}

std::int64_t ShardShare::count_of(int number) const {
  const Stretch own = lanes_of(number);
  const std::int64_t rest = std::clamp<std::int64_t>(plan_.shards % plan_.lanes - own.begin, 0, own.size());
  return plan_.shards / plan_.lanes * own.size() + rest;
}

std::int64_t ShardShare::shard_of(int number, std::int64_t own) const {
  const Stretch lanes = lanes_of(number);
  return own / lanes.size() * plan_.lanes + lanes.begin + own % lanes.size();
}

int ShardShare::number(int own) const { return repeats_ ? 0 : static_cast<int>(shard_of(group_.number(), own)); }

/// The parts of a process lie together, so that one call moves them.
std::span<const Collective::Bytes> ShardShare::exchange(std::span<const Collective::Bytes> here) {
  if (group_.alone()) return here;
  const std::size_t bytes = here[0].size() / static_cast<std::size_t>(images_of(number(0)));
  gathered_.resize(static_cast<std::size_t>(images_) * bytes);
  parts_.resize(static_cast<std::size_t>(plan_.shards));
  std::vector<Exchange::Received> by_process;
  std::byte* at = gathered_.data();
  for (int r = 0; r < group_.size(); ++r) {
    std::byte* const begin = at;
    for (std::int64_t i = 0, n = count_of(r); i < n; ++i) {
      const std::int64_t shard = shard_of(r, i);
      const std::size_t size = static_cast<std::size_t>(images_of(shard)) * bytes;
      if (r == group_.number()) std::memcpy(at, here[static_cast<std::size_t>(i)].data(), size);
      parts_[static_cast<std::size_t>(shard)] = Collective::Bytes(at, size);
      at += size;
    }
    by_process.emplace_back(begin, at);
  }
  group_.all_gather(by_process);
  return parts_;
}

void ShardShare::mark_images(std::vector<bool>::iterator first_image) const {
  for (int own = 0; own < count(); ++own) {
    const std::int64_t shard = number(own);
    std::fill_n(first_image + shard * plan_.images, images_of(shard), true);
  }
}

void ShardShare::share_rows(void* rows, std::size_t bytes, Exchange& exchange) const {
  if (group_.alone()) return;
  for (std::int64_t turn = 0; turn < plan_.shards; turn += plan_.lanes) {  // where the shards of each are neighbours
    std::vector<Exchange::Received> parts;
    for (int r = 0; r < group_.size(); ++r) {
      const Stretch lanes = lanes_of(r);
      std::byte* const begin = static_cast<std::byte*>(rows);
      parts.emplace_back(begin + static_cast<std::size_t>(first(turn + lanes.begin)) * bytes,
                         begin + static_cast<std::size_t>(first(turn + lanes.end)) * bytes);
    }
    exchange.all_gather(parts);
  }
}

GradientShare::GradientShare(Group& group, Backend& backend, ParameterSet& parameters, std::int64_t lanes,
                             std::int64_t chunk, std::int64_t chunks, std::span<const Stretch> whole)
    : group_(group),
      backend_(backend),
      exchange_(backend.exchange(group)),
      parameters_(parameters),
      lane_sums_(backend, parameters, group.alone() ? std::max(lanes, parameters.lanes()) : parameters.lanes()),
      chunk_(chunk) {
  const std::int64_t n = parameters.trained_size();
  std::vector<std::int64_t> begins;
  for (int r = 0; r < group.size(); ++r) {
    chunks_.push_back(share_of(chunks, r, group.size()));
    summed_.push_back({std::min(n, chunks_.back().begin * chunk), std::min(n, chunks_.back().end * chunk)});
    begins.push_back(summed_.back().begin);
    for (const Stretch& range : whole)
      if (range.begin < begins.back() && begins.back() < range.end) begins.back() = range.end;
  }
  begins.push_back(n);
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) values_.push_back({begins[r], begins[r + 1]});
  if (group.alone()) return;
  first_lane_ = share_of(lanes, group.number(), group.size()).begin;
  for (int r = 0; r < group.size(); ++r) add_nodes(r, share_of(lanes, r, group.size()), 0, lanes);
  std::vector<LaneNode> sums;
  for (const Node& node : nodes_) sums.push_back(node.lanes);
  for_merges(sums, lanes, [&](const LaneMerge& m) { merges_.push_back(m); });
  received_ = parameters.make_zeroed({std::ssize(nodes_), std::max<std::int64_t>(1, summed_[own_index()].size())},
                                     parameters.dtype());
  unused_ = parameters.make_zeroed({chunks}, DType::f64);
}

void GradientShare::add_nodes(int owner, const Stretch& own, std::int64_t first, std::int64_t count) {
  const Stretch both = overlap(own, {first, first + count});
  if (both.size() == 0) return;
  if (both.size() == count) return nodes_.push_back({owner, {first, count}});
  const std::int64_t lower = lower_half(count);
  add_nodes(owner, own, first, lower);
  add_nodes(owner, own, first + lower, count - lower);
}

void GradientShare::sum(ShardPool& pool, double* squares) {
  const std::int64_t n = parameters_.trained_size();
  const auto sum_chunks = [&](const Stretch& chunks, std::int64_t lanes, const Tensor& first_lane, double* to) {
    pool.for_blocks(chunks.size(), [&](std::int64_t b) {
      const std::int64_t first = b * chunk_;
      backend_.sum_lanes(lanes, n, first_lane.slice(first, std::min(chunk_, n - first)), to + b);
    });
  };
  // Completes the tree in a part of rows that hold sums; the first row of `all` gets the total.
  const auto complete = [&](std::span<const LaneMerge> merges, const Tensor& all, std::int64_t first, std::int64_t size,
                            double* square) {
    const std::int64_t stride = all.shape()[1];
    const auto row = [&](std::int64_t r) { return all.slice(r, 1).reshape({stride}).slice(first, size); };
    for (const LaneMerge& m : merges) backend_.sum_lanes(2, (m.from - m.to) * stride, row(m.to), square);
    if (merges.empty()) backend_.sum_lanes(1, 0, row(0), square);
  };
  const Tensor lane0 = parameters_.flat_lane(0);
  const std::size_t here = own_index();
  if (lane_sums_.few())
    return pool.for_blocks(chunks_[here].size(), [&](std::int64_t b) {
      complete(lane_sums_.merges(), parameters_.flat_lanes(), b * chunk_, std::min(chunk_, n - b * chunk_),
               squares + b);
    });
  if (group_.alone()) return sum_chunks(chunks_[here], parameters_.lanes(), lane0, squares);
  const Stretch all_chunks{0, (n + chunk_ - 1) / chunk_}, &summed = summed_[here];
  const auto own_node = [&](const Node& node) { return parameters_.flat_lane(node.lanes.first - first_lane_); };
  for (const Node& node : nodes_)
    if (node.owner == group_.number() && node.lanes.count > 1)
      sum_chunks(all_chunks, node.lanes.count, own_node(node), unused_.data<double>());
  // Round k sends each process's k-th node.
  std::vector<std::size_t> next(chunks_.size(), 0);
  for (bool more = true; more;) {
    std::vector<Exchange::Sent> send(chunks_.size());
    std::vector<Exchange::Received> receive(chunks_.size());
    more = false;
    for (std::size_t r = 0; r < chunks_.size(); ++r) {
      while (next[r] < nodes_.size() && nodes_[next[r]].owner != int(r)) ++next[r];
      if (next[r] == nodes_.size()) continue;
      more = true;
      receive[r] = bytes_of(received(std::int64_t(next[r]), 0, summed.size()), {0, summed.size()});
      if (r == here)
        for (std::size_t other = 0; other < chunks_.size(); ++other)
          send[other] = bytes_of(own_node(nodes_[next[r]]), summed_[other]);
      ++next[r];
    }
    if (more) exchange_.all_to_all(send, receive);
  }
  pool.for_blocks(chunks_[here].size(), [&](std::int64_t own) {
    const std::int64_t at = own * chunk_, size = std::min(chunk_, summed.size() - at);
    complete(merges_, received_, at, size, squares + chunks_[here].begin + own);
    backend_.copy_gradient(received(0, at, size), {lane0.slice(summed.begin + at, size)});
  });
  gather(
      [&](const Stretch& chunks) {
        return std::as_writable_bytes(std::span(squares + chunks.begin, squares + chunks.end));
      },
      chunks_);
  // Values that another process updates because they belong to a matrix that begins there.
  std::vector<Exchange::Sent> send(chunks_.size());
  std::vector<Exchange::Received> receive(chunks_.size());
  bool moves = false;
  for (std::size_t r = 0; r < chunks_.size(); ++r) {
    moves = moves || summed_[r].begin != values_[r].begin;
    if (r == here) continue;
    send[r] = bytes_of(lane0, overlap(summed, values_[r]));
    receive[r] = bytes_of(lane0, overlap(summed_[r], values()));
  }
  if (moves) exchange_.all_to_all(send, receive);
}

void GradientShare::gather_in_root(const Tensor& flat) {
  std::vector<Exchange::Sent> send(values_.size());
  std::vector<Exchange::Received> receive(values_.size());
  send[0] = bytes_of(flat, values());
  for (std::size_t r = 0; r < values_.size() && group_.root(); ++r) receive[r] = bytes_of(flat, values_[r]);
  if (!group_.alone()) exchange_.all_to_all(send, receive);
}

void GradientShare::gather(const Tensor& flat, const std::vector<Stretch>& ranges) {
  gather([&](const Stretch& range) { return bytes_of(flat, range); }, ranges);
}

void GradientShare::gather(FunctionRef<Exchange::Received(const Stretch&)> part_of,
                           const std::vector<Stretch>& ranges) {
  if (group_.alone()) return;
  std::vector<Exchange::Received> parts;
  for (const Stretch& range : ranges) parts.push_back(part_of(range));
  exchange_.all_gather(parts);
}

}  // namespace normlab
