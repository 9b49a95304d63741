// The order in which what identities ask for is served: weighted fair queueing
// by predicted cost. Of identities that always have something waiting, each
// gets the same share of what is served, whoever asks more often or for more
// at a time; what one does not use, the others get.
//
// Each identity has a tag, the virtual time at which its first item may start:
// the item of the smallest tag is served, and its cost is added to the tag.
// (Start-time fair queueing: Goyal, Vin, Cheng, 1996.) Who comes back after a
// while starts at the present virtual time: nobody saves up.
// Thread-compatible.
#ifndef GEMMD_SERVICE_ENGINE_FAIR_QUEUE_H_
#define GEMMD_SERVICE_ENGINE_FAIR_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gemmd::engine {

template <typename Item>
class FairQueue {
 public:
  // `cost` is at least 0; items that cost nothing are served in turn too.
  void Push(const std::string& identity, int64_t cost, Item item) {
    Forget();
    const auto [at, created] = flows_.try_emplace(identity);
    Flow& flow = at->second;
    if (flow.items.empty()) {
      flow.tag = created ? now_ : std::max(now_, flow.tag);
      flow.turn = ++turns_;
      order_.insert(&flow);
    }
    flow.items.push_back({std::max<int64_t>(cost, 1), std::move(item)});
    ++size_;
  }

  // The next item that `takes` is true of, where its identity has no earlier
  // one, but for those of which `dead` is true: they are dropped and charged to
  // nobody. Null when there is none.
  template <typename Dead, typename Takes>
  std::optional<Item> Pop(Dead dead, Takes takes) {
    auto at = order_.begin();
    while (at != order_.end()) {
      Flow& flow = **at;
      if (!takes(flow.items.front().item)) {
        ++at;
        continue;
      }
      order_.erase(at);
      Entry entry = std::move(flow.items.front());
      flow.items.pop_front();
      --size_;
      const bool live = !dead(entry.item);
      if (live) {
        now_ = std::max(now_, flow.tag);
        flow.tag += entry.cost;
        flow.turn = ++turns_;
      }
      if (!flow.items.empty()) order_.insert(&flow);
      if (live) return std::move(entry.item);
      at = order_.begin();
    }
    return std::nullopt;
  }
  template <typename Dead>
  std::optional<Item> Pop(Dead dead) {
    return Pop(dead, [](const Item&) { return true; });
  }

  // Takes out all items of which `dead` is true.
  template <typename Dead>
  std::vector<Item> RemoveIf(Dead dead) {
    std::vector<Item> removed;
    for (auto& [identity, flow] : flows_) {
      if (flow.items.empty()) continue;
      order_.erase(&flow);
      for (auto at = flow.items.begin(); at != flow.items.end();) {
        if (dead(at->item)) {
          removed.push_back(std::move(at->item));
          at = flow.items.erase(at);
        } else {
          ++at;
        }
      }
      if (!flow.items.empty()) order_.insert(&flow);
    }
    size_ -= removed.size();
    return removed;
  }

  bool empty() const { return order_.empty(); }
  int64_t size() const { return size_; }

 private:
  struct Entry {
    int64_t cost;
    Item item;
  };
  struct Flow {
    int64_t tag = 0;
    int64_t turn = 0;  // Among equal tags, who waits longest comes first.
    std::list<Entry> items;
  };
  struct Earlier {
    bool operator()(const Flow* x, const Flow* y) const {
      return std::pair(x->tag, x->turn) < std::pair(y->tag, y->turn);
    }
  };

  // When nothing waits, nobody owes; and what is paid need not be remembered.
  void Forget() {
    if (order_.empty()) {
      flows_.clear();
    } else if (flows_.size() > 2 * order_.size() + kSlack) {
      std::erase_if(flows_, [this](const auto& entry) {
        return entry.second.items.empty() && entry.second.tag <= now_;
      });
    }
  }

  static constexpr size_t kSlack = 64;

  // By identity, with those who were served while others waited.
  std::unordered_map<std::string, Flow> flows_;
  std::set<Flow*, Earlier> order_;  // Those with items.
  int64_t now_ = 0;  // Virtual time: tag of what was served last.
  int64_t turns_ = 0;
  int64_t size_ = 0;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_FAIR_QUEUE_H_
