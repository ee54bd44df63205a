/* tbb.cc - a graph as oneTBB's flow graph of continue_nodes: made once, run often. */
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <chrono>
#include <memory>
#include <vector>

#include "graph.h"

double tbb_run(const graph *graph, int threads, uint32_t spins, int runs) {
  using namespace oneapi::tbb;
  using node = flow::continue_node<flow::continue_msg>;
  double time = 0;
  global_control limit(global_control::max_allowed_parallelism,
                       static_cast<std::size_t>(threads));
  task_arena arena(threads);
  arena.execute([&] {
    flow::graph all;
    std::vector<std::unique_ptr<node>> nodes;
    std::vector<node *> roots;
    for (uint32_t i = 0; i < graph->count; i++) {
      nodes.emplace_back(
          new node(all, [spins](const flow::continue_msg &) { graph_spin(spins); }));
      for (uint32_t k = graph->first[i]; k < graph->first[i + 1]; k++)
        flow::make_edge(*nodes[graph->before[k]], *nodes[i]);
      if (graph->first[i] == graph->first[i + 1])
        roots.push_back(nodes.back().get());
    }
    auto run = [&] {
      for (node *root : roots)
        root->try_put(flow::continue_msg());
      all.wait_for_all();
    };
    for (int i = 0; i < GRAPH_WARM; i++)
      run();
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; i++)
      run();
    std::chrono::duration<double, std::nano> took =
        std::chrono::steady_clock::now() - begin;
    time = took.count() / runs;
  });
  return time;
}
