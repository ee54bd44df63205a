/* order.c - collects the edges, and sorts steps by critical path. */
#include "plan/order.h"

#include "plan/plan.h"

typedef struct edges {
  keel_edge *list;
  size_t count;
} edges;

static int by_ends(const void *a, const void *b) {
  const keel_edge *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (x->to > y->to) - (x->to < y->to);
}

/* All edges, without duplicates, grouped by `from`. */
static bool list_edges(const keel_executable *executable, const keel_edge *more,
                       size_t more_count, edges *out) {
  size_t room = more_count;
  for (uint32_t i = 0; i < executable->step_count; i++)
    room += executable->steps[i].input_count;
  uint32_t *maker =
      malloc(((size_t)executable->value_count + 1) * sizeof *maker);
  out->list = malloc((room + 1) * sizeof *out->list);
  if (!maker || !out->list) {
    free(maker);
    free(out->list);
    return false;
  }
  for (uint32_t i = 0; i < executable->value_count; i++)
    maker[i] = KEEL_ABSENT;
  for (uint32_t i = 0; i < executable->step_count; i++) {
    const keel_step *step = &executable->steps[i];
    for (uint32_t k = 0; k < step->input_count; k++)
      if (step->inputs[k] != KEEL_ABSENT &&
          maker[step->inputs[k]] != KEEL_ABSENT)
        out->list[out->count++] = (keel_edge){maker[step->inputs[k]], i};
    for (uint32_t k = 0; k < step->output_count; k++)
      if (step->outputs[k] != KEEL_ABSENT) maker[step->outputs[k]] = i;
  }
  free(maker);
  if (more_count)
    memcpy(out->list + out->count, more, more_count * sizeof *more);
  out->count += more_count;
  qsort(out->list, out->count, sizeof *out->list, by_ends);
  size_t kept = 0;
  for (size_t i = 0; i < out->count; i++)
    if (!kept || by_ends(&out->list[kept - 1], &out->list[i]) != 0)
      out->list[kept++] = out->list[i];
  out->count = kept;
  return true;
}

/* A step, and the length of the longest path from its start to the end. */
typedef struct ranked {
  uint64_t way;
  uint32_t step;
} ranked;

static int by_way(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->way != y->way) return x->way > y->way ? -1 : 1;
  return (x->step > y->step) - (x->step < y->step);
}

/* Sorts steps, longest remaining path first. */
static void sort_steps(const uint64_t *ways, ranked *room, uint32_t *steps,
                       size_t count) {
  for (size_t i = 0; i < count; i++)
    room[i] = (ranked){ways[steps[i]], steps[i]};
  qsort(room, count, sizeof *room, by_way);
  for (size_t i = 0; i < count; i++)
    steps[i] = room[i].step;
}

static bool order_fill(keel_order *order, uint32_t n, const edges *all,
                       const uint32_t *costs) {
  uint64_t *ways = calloc((size_t)n + 1, sizeof *ways);
  ranked *room = malloc(((size_t)n + 1) * sizeof *room);
  if (!ways || !room) {
    free(ways);
    free(room);
    return false;
  }
  for (size_t i = 0; i < all->count; i++) {
    assert(all->list[i].from < all->list[i].to && all->list[i].to < n);
    order->waits[all->list[i].to]++;
    order->first[all->list[i].from + 1]++;
    order->followers[i] = all->list[i].to;
  }
  for (uint32_t i = 0; i < n; i++)
    order->first[i + 1] += order->first[i];
  for (uint32_t i = n; i-- > 0;) {
    uint32_t *followers = order->followers + order->first[i];
    uint32_t count = order->first[i + 1] - order->first[i];
    if (count > 1) sort_steps(ways, room, followers, count);
    ways[i] = (costs ? costs[i] : 1) + (count ? ways[followers[0]] : 0);
  }
  for (uint32_t i = 0; i < n; i++)
    if (!order->waits[i]) order->roots[order->root_count++] = i;
  assert(!n || order->root_count);
  sort_steps(ways, room, order->roots, order->root_count);
  free(ways);
  free(room);
  return true;
}

void keel_order_free(keel_order *order) {
  if (!order) return;
  free(order->waits);
  free(order->first);
  free(order->followers);
  free(order->roots);
  free(order);
}

keel_order *keel_order_create(const keel_executable *executable,
                              const keel_edge *more, size_t more_count,
                              const uint32_t *costs) {
  size_t n = executable->step_count;
  edges all = {0};
  keel_order *order = calloc(1, sizeof *order);
  bool whole = order && list_edges(executable, more, more_count, &all);
  if (whole) {
    order->waits = calloc(n + 1, sizeof *order->waits);
    order->first = calloc(n + 2, sizeof *order->first);
    order->followers = calloc(all.count + 1, sizeof *order->followers);
    order->roots = calloc(n + 1, sizeof *order->roots);
    whole = order->waits && order->first && order->followers && order->roots &&
            order_fill(order, executable->step_count, &all, costs);
    free(all.list);
  }
  if (whole) return order;
  keel_order_free(order);
  keel_no_memory(n * sizeof(uint32_t));
  return NULL;
}
