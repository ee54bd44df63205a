/* region.c - a plugin's own compiler: claims, regions, blobs. */
#include <math.h>

#include "rules/rules.h"
#include "suite/graph.h"

/* x -> Relu -> a; a + x -> b; b -> Exp or Tanh -> c; c * a -> d */
typedef struct graph4 {
  struct kd_graph graph;
  kc_op ops[4];
  value *x;
  const keel_type *type;
  int64_t n, dims[KD_MAX_RANK]; /* elements; of the launch */
  uint32_t rank;
} graph4;

static const char *const chain[] = {"Relu", "Add", "Tanh", "Mul"};

/* told: what the graph says of the shape, where it is not the launch's; or NULL. */
static void graph_shape(graph4 *g, uint32_t rank, const int64_t *dims,
                        const int64_t *told, kc_random *random) {
  memset(g, 0, sizeof *g);
  g->n = 1;
  g->rank = rank;
  for (uint32_t i = 0; i < rank; i++)
    g->n *= g->dims[i] = dims[i];
  g->x = kc_floats(rank, dims, random);
  if (keel_type_of(KD_F32, rank, told ? told : dims, &g->type) != KD_OK)
    kc_stop("no type");
  static const uint32_t in[4][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 1}};
  for (uint32_t i = 0; i < 4; i++) {
    const keel_type *types[2] = {g->type, g->type};
    g->ops[i] =
        (kc_op){.name = chain[i], .in_count = i % 2 ? 2 : 1, .out_count = 1};
    g->graph.nodes[i] = kc_node_typed(&g->ops[i], types, types);
    g->graph.inputs[i][0] = in[i][0];
    g->graph.inputs[i][1] = in[i][1];
    g->graph.outputs[i][0] = i + 1;
  }
  g->graph.node_count = 4;
  g->graph.value_count = 5;
  for (int i = 0; i < 5; i++)
    g->graph.types[i] = g->type;
  g->graph.input_count = g->graph.output_count = 1;
  g->graph.graph_inputs[0] = 0;
  g->graph.graph_outputs[0] = 4;
}

static void graph_make(graph4 *g, int64_t n, kc_random *random) {
  graph_shape(g, 1, &n, NULL, random);
}

static void graph_free(graph4 *g) {
  for (uint32_t i = 0; i < g->graph.node_count; i++)
    kc_node_free(g->graph.nodes[i]);
  value_free(g->x);
}

/* Leaves the first nodes of the chain. */
static void graph_cut(graph4 *g, uint32_t nodes) {
  while (g->graph.node_count > nodes)
    kc_node_free(g->graph.nodes[--g->graph.node_count]);
  g->graph.value_count = nodes + 1;
  g->graph.graph_outputs[0] = nodes;
}

/* Behind the first `nodes` of Relu(x), + x, Tanh, * Relu(x). */
static real expected(real x, uint32_t nodes) {
  real a = x > 0 ? x : 0;
  return nodes == 1   ? a
         : nodes == 2 ? a + x
         : nodes == 3 ? tanhl(a + x)
                      : tanhl(a + x) * a;
}

typedef struct claims {
  uint32_t count, nodes[8][KC_NODES], sizes[8];
  bool twice, outside;
  uint32_t owner[KC_NODES];
} claims;

static kd_status take(void *context, const uint32_t *nodes, uint32_t count,
                      const kd_cost *cost) {
  claims *c = context;
  (void)cost;
  if (!count || count > KC_NODES || c->count >= 8) return KD_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < count; i++) {
    if (nodes[i] >= 4) {
      c->outside = true;
      return KD_INVALID_ARGUMENT;
    }
    if (c->owner[nodes[i]]) {
      c->twice = true;
      return KD_INVALID_ARGUMENT;
    }
  }
  for (uint32_t i = 0; i < count; i++)
    c->owner[nodes[i]] = c->count + 1;
  memcpy(c->nodes[c->count], nodes, count * sizeof *nodes);
  c->sizes[c->count++] = count;
  return KD_OK;
}

static claims claim(graph4 *g) {
  claims c = {0};
  kc_ok(KC_CALL(kd_status, kp.r.claim(kc_device(), &g->graph, take, &c),
                "region.claim"),
        "region.claim");
  return c;
}

/* Runs a region on data; its output goes to `out`. */
static kd_status run_region(kd_region *region, graph4 *g, float *out) {
  uint64_t size = (uint64_t)g->n * 4;
  kc_buffer *x = kc_buffer_make(size + 4), *y = kc_buffer_make(size + 4);
  float *bytes = kc_take(size + 4);
  value_store(g->x, bytes);
  if (size) kc_write(x, 0, bytes, size);
  kd_tensor in = {.buffer = x->handle,
                  .data = x->address,
                  .offset = x->offset,
                  .size = size,
                  .dims = g->dims,
                  .dtype = KD_F32,
                  .rank = (uint8_t)g->rank};
  kd_tensor target = in;
  target.buffer = y->handle;
  target.data = y->address;
  target.offset = y->offset;
  kd_launch launch = {.struct_size = sizeof launch,
                      .input_count = 1,
                      .output_count = 1,
                      .inputs = &in,
                      .outputs = &target,
                      .device = kc_device()};
  kc_buffer *scratch = NULL;
  int64_t scratch_dim = 0;
  if (kp.r.workspace) {
    uint64_t bytes_needed =
        KC_CALL(uint64_t, kp.r.workspace(region, &launch), "region.workspace");
    if (bytes_needed) {
      scratch = kc_buffer_make(bytes_needed);
      scratch_dim = (int64_t)bytes_needed;
      launch.workspace = (kd_tensor){.buffer = scratch->handle,
                                     .data = scratch->address,
                                     .offset = scratch->offset,
                                     .size = bytes_needed,
                                     .dims = &scratch_dim,
                                     .dtype = KD_U8,
                                     .rank = 1};
    }
  }
  kd_stream *stream = kc_claims(KC_ASYNC) ? kc_stream_make(kc_device()) : NULL;
  kd_status status = KC_CALL(kd_status, kp.r.enqueue(region, stream, &launch),
                             "region.enqueue");
  if (stream && status == KD_OK) status = kc_finish(stream);
  if (status == KD_OK && size) kc_read(y, 0, out, size);
  if (stream) kc_stream_free(stream);
  kc_buffer_free(scratch);
  kc_buffer_free(x);
  kc_buffer_free(y);
  free(bytes);
  return status;
}

static void check_region(kd_region *region, graph4 *g, const char *what) {
  float *out = kc_take((uint64_t)g->n * 4 + 4);
  kd_status status = run_region(region, g, out);
  if (kc_check(status == KD_OK, "%s: enqueue returned %s", what,
               kd_status_name(status)))
    for (int64_t i = 0; i < g->n; i++) {
      real want = expected(g->x->x[i], g->graph.node_count);
      if (fabsl(out[i] - want) <= 1e-5L * (1 + fabsl(want))) continue;
      kc_check(false, "%s: element %lld is %g, expected %Lg", what,
               (long long)i, (double)out[i], want);
      break;
    }
  free(out);
}

/* Compiles the whole graph, which must have been claimed as one. */
static kd_region *compile(graph4 *g) {
  kd_region *region = NULL;
  claims c = claim(g);
  if (c.count != 1 || c.sizes[0] != 4)
    kc_unclaimed("it does not claim the graph of Relu, Add, Tanh, Mul whole");
  kc_ok(KC_CALL(kd_status, kp.r.compile(kc_device(), &g->graph, &region),
                "region.compile"),
        "region.compile of what it claimed");
  KC_NEED(region != NULL, "compile returned KD_OK and no region");
  return region;
}

static void region_claim_honest(void) {
  graph4 g;
  kc_random random = kc_seed();
  graph_make(&g, 200, &random);
  claims c = claim(&g);
  kc_check(!c.twice, "it claimed a node twice");
  kc_check(!c.outside, "it claimed a node that the graph does not have");
  kc_note("%u claims", c.count);
  if (c.count == 1 && c.sizes[0] == 4) {
    kd_region *region = compile(&g);
    check_region(region, &g, "a claimed region");
    KC_DO(kp.r.destroy(region), "region.destroy");
  }
  graph_free(&g);
}

static void region_claim_pure(void) {
  graph4 g;
  kc_random random = kc_seed();
  graph_make(&g, 100, &random);
  claims first = claim(&g);
  for (int i = 0; i < 5; i++) {
    claims again = claim(&g);
    kc_check(!memcmp(&first, &again, sizeof first),
             "claiming the same graph again gives %u claims, not %u",
             again.count, first.count);
  }
  graph_free(&g);
}

static void region_refused(void) {
  graph4 g;
  kc_random random = kc_seed();
  graph_make(&g, 100, &random);
  claims c = {0};
  c.count = 8; /* every claim is refused: the plugin may go on */
  kd_status status =
      KC_CALL(kd_status, kp.r.claim(kc_device(), &g.graph, take, &c),
              "region.claim(all refused)");
  kc_check(status == KD_OK, "claim returned %s when its claims were refused",
           kd_status_name(status));
  graph_free(&g);
  kc_smoke();
}

static void region_equals(void) {
  kc_random random = kc_seed();
  static const struct {
    uint32_t rank;
    int64_t dims[4];
  } shapes[] = {{1, {1}},     {1, {3}},       {1, {64}}, {1, {1001}},
                {2, {17, 5}}, {3, {3, 4, 5}}, {0, {0}},  {4, {1, 7, 1, 30}}};
  for (size_t i = 0; i < KC_COUNT_OF(shapes); i++) {
    graph4 g;
    graph_shape(&g, shapes[i].rank, shapes[i].dims, NULL, &random);
    kd_region *region = compile(&g);
    for (int k = 0; k < 3; k++)
      check_region(region, &g, "a region");
    KC_DO(kp.r.destroy(region), "region.destroy");
    graph_free(&g);
  }
}

static void need_blobs(void) {
  if (!kp.r.serialize) kc_unclaimed("region.serialize is NULL");
}

static void *serialize(kd_region *region, uint64_t *out_size) {
  void *blob = NULL;
  kd_status status = KC_CALL(kd_status, kp.r.serialize(region, &blob, out_size),
                             "region.serialize");
  if (status == KD_UNIMPLEMENTED) kc_unclaimed("it serialises no regions");
  kc_ok(status, "region.serialize");
  KC_NEED(blob && *out_size, "serialize gave an empty blob");
  return blob;
}

static kd_status validate(const void *blob, uint64_t size) {
  return KC_CALL(kd_status, kp.r.validate(kc_device(), blob, size),
                 "region.validate(%llu bytes)", (unsigned long long)size);
}

static void region_serialise(void) {
  need_blobs();
  graph4 g;
  kc_random random = kc_seed();
  uint64_t size = 0;
  graph_make(&g, 300, &random);
  kd_region *region = compile(&g), *other = NULL;
  void *blob = serialize(region, &size);
  KC_DO(kp.r.destroy(region), "region.destroy");
  char *copy = kc_fenced(size);
  memcpy(copy, blob, size);
  kc_services()->release(blob);
  kc_tidy(); /* the device is closed and opened again */
  kd_status status = validate(copy, size);
  kc_check(status == KD_OK, "validate of its own blob returned %s: %s",
           kd_status_name(status), kc_message());
  kc_ok(KC_CALL(kd_status, kp.r.load(kc_device(), copy, size, &other),
                "region.load"),
        "region.load");
  check_region(other, &g, "a region that was loaded");
  KC_DO(kp.r.destroy(other), "region.destroy");
  graph_free(&g);
}

static void region_other_device(void) {
  need_blobs();
  kc_ok(kc_open(), "open");
  if (KC_CALL(uint32_t, kp.p.device_count(), "device_count") < 2)
    kc_unclaimed("there is one device");
  graph4 g;
  kc_random random = kc_seed();
  uint64_t size = 0;
  graph_make(&g, 50, &random);
  kd_region *region = compile(&g);
  void *blob = serialize(region, &size);
  kd_device *other = kc_device_at(kc.device ? 0 : 1);
  kd_status status = KC_CALL(kd_status, kp.r.validate(other, blob, size),
                             "region.validate(on another device)");
  bool same_kind = !strcmp(kc_info_at(0)->name, kc_info_at(1)->name);
  kc_check(same_kind || status == KD_INCOMPATIBLE,
           "another kind of device says %s of the blob",
           kd_status_name(status));
  kc_check(status == KD_OK || status == KD_INCOMPATIBLE, "validate returned %s",
           kd_status_name(status));
  kc_services()->release(blob);
  KC_DO(kp.r.destroy(region), "region.destroy");
  graph_free(&g);
}

static void region_mutated(void) {
  need_blobs();
  graph4 g;
  kc_random random = kc_seed();
  uint64_t size = 0;
  graph_make(&g, 40, &random);
  kd_region *region = compile(&g);
  char *blob = serialize(region, &size);
  int rounds = kc.quick ? 200 : 1500;
  for (int i = 0; i < rounds; i++) {
    uint64_t less = i % 3 == 0 ? kc_below(&random, size) : size;
    char *copy = kc_take(less + 8);
    memcpy(copy, blob, less);
    if (i % 3 && less) { /* a few bits, anywhere */
      uint64_t flips = 1 + kc_below(&random, 3);
      for (uint64_t k = 0; k < flips; k++)
        copy[kc_below(&random, less)] ^= (char)(1 << kc_below(&random, 8));
    }
    bool same = less == size && !memcmp(copy, blob, size);
    kd_status status = validate(copy, less);
    kc_check(status == KD_DATA_LOSS || status == KD_INCOMPATIBLE || same,
             "a damaged blob (%llu of %llu bytes) is %s",
             (unsigned long long)less, (unsigned long long)size,
             kd_status_name(status));
    if (status == KD_OK) { /* what it takes, it must be able to load */
      kd_region *other = NULL;
      status = KC_CALL(kd_status, kp.r.load(kc_device(), copy, less, &other),
                       "region.load(damaged)");
      if (status == KD_OK) KC_DO(kp.r.destroy(other), "region.destroy");
    }
    free(copy);
  }
  char nothing = 0;
  kc_check(validate(&nothing, 0) != KD_OK, "an empty blob is valid");
  kc_services()->release(blob);
  KC_DO(kp.r.destroy(region), "region.destroy");
  graph_free(&g);
}

static void region_odd_graphs(void) {
  kc_random random = kc_seed();
  for (int i = 0; i < (kc.quick ? 300 : 10000); i++) {
    graph4 g;
    graph_make(&g, 8, &random);
    /* edges to nowhere, self-made cycles, empty graphs */
    for (int k = 0; k < 3; k++) {
      uint32_t node = (uint32_t)kc_below(&random, 4);
      uint32_t to = (uint32_t)kc_below(&random, 8);
      g.graph.inputs[node][kc_below(&random, 2)] = to < 5 ? to : UINT32_MAX;
    }
    if (i % 7 == 0) g.graph.node_count = (uint32_t)kc_below(&random, 4);
    if (i % 5 == 0) g.graph.output_count = 0;
    claims c = {0};
    kd_status status =
        KC_CALL(kd_status, kp.r.claim(kc_device(), &g.graph, take, &c),
                "region.claim(odd graph)");
    kc_check(status >= 0 && status <= KD_BUSY, "claim returned %d", status);
    kd_region *region = NULL;
    status = KC_CALL(kd_status, kp.r.compile(kc_device(), &g.graph, &region),
                     "region.compile(odd graph)");
    kc_check(status == KD_OK || *kc_message(),
             "compile refused a graph without a message");
    if (status == KD_OK && region)
      KC_DO(kp.r.destroy(region), "region.destroy");
    g.graph.node_count = 4;
    graph_free(&g);
  }
}

static void region_empty(void) {
  graph4 g;
  kc_random random = kc_seed();
  graph_make(&g, 4, &random);
  for (uint32_t i = 0; i < 4; i++)
    kc_node_free(g.graph.nodes[i]);
  g.graph.node_count = 0;
  claims c = {0};
  kd_status status =
      KC_CALL(kd_status, kp.r.claim(kc_device(), &g.graph, take, &c),
              "region.claim(empty graph)");
  kc_check(status == KD_OK && c.count == 0,
           "claim of an empty graph returned %s and %u claims",
           kd_status_name(status), c.count);
  value_free(g.x);
}

/* Sizes that come with the launch: each is as good as the first. */
static void region_dynamic(void) {
  static const int64_t sizes[] = {40, 7, 300, 1, 40};
  graph4 g;
  kc_random random = kc_seed();
  graph_shape(&g, 1, &sizes[0], &(const int64_t){-1}, &random);
  claims c = claim(&g);
  if (c.count != 1 || c.sizes[0] != 4) {
    graph_free(&g);
    kc_unclaimed("it does not claim a graph whose sizes are not known");
  }
  kd_region *region = NULL;
  kd_status status =
      KC_CALL(kd_status, kp.r.compile(kc_device(), &g.graph, &region),
              "region.compile(sizes not known)");
  kc_check(status == KD_OK || (status == KD_UNIMPLEMENTED && *kc_message()),
           "compile of a graph that was claimed, sizes not known, returned %s",
           kd_status_name(status));
  for (size_t i = 0; i < KC_COUNT_OF(sizes) && status == KD_OK; i++) {
    value_free(g.x);
    g.n = g.dims[0] = sizes[i];
    g.x = kc_floats(1, g.dims, &random);
    check_region(region, &g, "a region for any size");
  }
  if (status == KD_OK) KC_DO(kp.r.destroy(region), "region.destroy");
  graph_free(&g);
}

static void compile_there(void *context, uint32_t index) {
  graph4 *g = (graph4 *)context + index;
  for (int i = 0; i < (kc.quick ? 20 : 60); i++) {
    kd_region *region = NULL;
    kd_status status =
        KC_CALL(kd_status, kp.r.compile(kc_device(), &g->graph, &region),
                "region.compile");
    if (!kc_check(status == KD_OK, "compile beside others: %s",
                  kd_status_name(status)))
      return;
    check_region(region, g, "a region compiled beside others");
    KC_DO(kp.r.destroy(region), "region.destroy");
  }
}

static void region_threads(void) {
  graph4 all[4];
  kc_random random = kc_seed();
  for (uint32_t i = 0; i < 4; i++) { /* what is mixed up shows */
    graph_make(&all[i], 64 + 32 * i, &random);
    graph_cut(&all[i], i + 1);
    claims c = claim(&all[i]);
    if (c.count == 1 && c.sizes[0] == i + 1) continue;
    graph_free(&all[i]);
    graph_make(&all[i], 64 + 32 * i, &random);
  }
  KC_DO(kp.r.destroy(compile(&all[3])), "region.destroy");
  kc_threads(4, compile_there, all);
  for (uint32_t i = 0; i < 4; i++)
    graph_free(&all[i]);
}

#define RULE(id, check, sentence, names, about) \
  KC_RULE(MUST, COMPILE, id, check, 0, "region.h", sentence, names, about)

static const kc_rule rules[] = {
    RULE("region.claim-honest", region_claim_honest,
         "one connected part that no path leaves and enters again",
         "kd_region_table.claim kd_claim kd_region_table.compile"
         " kd_region_table.enqueue kd_region_table.destroy"
         " kd_graph_table.struct_size kd_graph_table.reserved"
         " kd_graph_table.node_count kd_graph_table.node"
         " kd_graph_table.value_count kd_graph_table.node_input"
         " kd_graph_table.node_output kd_graph_table.input_count"
         " kd_graph_table.input kd_graph_table.output_count"
         " kd_graph_table.output kd_graph_table.value_type"
         " kd_graph_table.value_constant kd_host.graph",
         "Claims that overlap, or that can't be compiled afterwards."),
    RULE("region.claim-pure", region_claim_pure,
         "Looks at a graph and hands over claims", "kd_region_table.claim",
         "The host may ask twice, and plans by the answer."),
    RULE("region.claim-refused", region_refused,
         "the claim is dropped and the plugin may go on",
         "kd_region_table.claim kd_claim KD_INVALID_ARGUMENT",
         "A refused claim is no failure."),
    RULE("region.equals-ops", region_equals,
         "its inputs and outputs are the graph's, in order",
         "kd_region_table.compile kd_region_table.workspace"
         " kd_region_table.enqueue",
         "Fused or not, the numbers are the ops'."),
    RULE("region.serialise", region_serialise,
         "Gives the compiled form, which kd_host.release frees",
         "kd_region_table.serialize kd_region_table.validate"
         " kd_region_table.load",
         "A blob that points into the process that made it."),
    RULE("region.other-device", region_other_device,
         "still fits this device and driver",
         "kd_region_table.validate KD_INCOMPATIBLE",
         "Caches move between machines with other devices."),
    RULE("region.mutated-blob", region_mutated,
         "Whether a blob, from anywhere and not to be trusted",
         "kd_region_table.validate kd_region_table.load KD_DATA_LOSS",
         "A flipped bit in a cached program becomes a wrong jump on the"
         " device."),
    RULE("region.odd-graphs", region_odd_graphs,
         "KD_UNIMPLEMENTED (the host runs the part op by op)",
         "kd_region_table.compile kd_region_table.claim",
         "Values that nobody writes, absent inputs, cycles: refuse or compile,"
         " never crash or run for ever."),
    KC_RULE(MUST, COMPILE, "region.dynamic-shapes", region_dynamic, 0,
            "tensor.h", "-1 is not known yet",
            "kd_type.dims kd_region_table.compile kd_region_table.enqueue",
            "Code that was made for the first size is used for the next."),
    RULE("region.empty-graph", region_empty,
         "Returns KD_OK also where it claims nothing", "kd_region_table.claim",
         "Nothing to claim is no failure."),
    RULE("region.threads", region_threads, "Compiles one claimed part",
         "kd_region_table.compile", "Hosts compile parts on several threads."),
};

KC_AREA(region, "Compiled regions");
