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
  uint32_t limit; /* nodes that there are; 0: four */
} claims;

static kd_status take(void *context, const uint32_t *nodes, uint32_t count,
                      const kd_cost *cost) {
  claims *c = context;
  (void)cost;
  if (!count || count > KC_NODES || c->count >= 8) return KD_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < count; i++) {
    if (nodes[i] >= (c->limit ? c->limit : 4)) {
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

/* A tensor's memory on the device, and its description. */
typedef struct argument {
  kc_buffer *buffer;
  uint64_t size;
} argument;

static argument bind(const value *of, bool filled, kd_tensor *out) {
  argument one = {.size = value_size(of)};
  one.buffer = kc_buffer_make(one.size + 4);
  if (filled && one.size) {
    void *bytes = kc_take(one.size);
    value_store(of, bytes);
    kc_write(one.buffer, 0, bytes, one.size);
    free(bytes);
  }
  *out = (kd_tensor){.buffer = one.buffer->handle,
                     .data = one.buffer->address,
                     .offset = one.buffer->offset,
                     .size = one.size,
                     .dims = of->dims,
                     .dtype = of->dtype,
                     .rank = (uint8_t)of->rank};
  return one;
}

/* Runs a region on data; its outputs, which are as those of `like`, go to `out`. */
static kd_status launch_region(kd_region *region, value *const *in,
                               uint32_t in_count, value *const *like,
                               uint32_t out_count, float *const *out) {
  kd_tensor inputs[KC_PORTS], outputs[KC_PORTS];
  argument from[KC_PORTS], to[KC_PORTS];
  kd_launch launch = {.struct_size = sizeof launch,
                      .input_count = in_count,
                      .output_count = out_count,
                      .inputs = inputs,
                      .outputs = outputs,
                      .device = kc_device()};
  for (uint32_t i = 0; i < in_count; i++)
    from[i] = bind(in[i], true, &inputs[i]);
  for (uint32_t i = 0; i < out_count; i++)
    to[i] = bind(like[i], false, &outputs[i]);
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
  for (uint32_t i = 0; i < out_count; i++) {
    if (status == KD_OK && to[i].size)
      kc_read(to[i].buffer, 0, out[i], to[i].size);
    kc_buffer_free(to[i].buffer);
  }
  if (stream) kc_stream_free(stream);
  kc_buffer_free(scratch);
  for (uint32_t i = 0; i < in_count; i++)
    kc_buffer_free(from[i].buffer);
  return status;
}

static void check_region(kd_region *region, graph4 *g, const char *what) {
  float *out = kc_take((uint64_t)g->n * 4 + 4);
  kd_status status = launch_region(region, &g->x, 1, &g->x, 1, &out);
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
  kc_services()->release(kc_services(), blob);
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
  if (KC_CALL(uint32_t, kp.p.device_count(kp.instance), "device_count") < 2)
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
  kc_services()->release(kc_services(), blob);
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
  kc_services()->release(kc_services(), blob);
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

/* ---- parts that read tensors of several shapes ------------------------------------ */

/* a = x w; b = a + row; c = Relu(b); d = c * x; e = d + column */
enum { X, W, ROW, COLUMN, A, MIXED_VALUES = A + 5, MIXED_NODES = 5 };

typedef struct mixed {
  struct kd_graph graph;
  kc_op ops[MIXED_NODES];
  value *values[MIXED_VALUES]; /* what each is */
} mixed;

static void mixed_make(mixed *g, int64_t m, int64_t n, bool special,
                       kc_random *random) {
  static const char *const ops[] = {"MatMul", "Add", "Relu", "Mul", "Add"};
  static const uint32_t in[MIXED_NODES][2] = {
      {X, W}, {A, ROW}, {A + 1, 0}, {A + 2, X}, {A + 3, COLUMN}};
  const int64_t shapes[A][2] = {{m, n}, {n, n}, {n, 0}, {m, 1}};
  memset(g, 0, sizeof *g);
  for (uint32_t i = 0; i < MIXED_VALUES; i++) {
    const int64_t *dims = shapes[i < A ? i : X];
    uint32_t rank = i == ROW ? 1 : 2;
    g->values[i] =
        i < A ? kc_floats(rank, dims, random) : value_make(KD_F32, rank, dims);
    if (!g->values[i] ||
        keel_type_of(KD_F32, rank, dims, &g->graph.types[i]) != KD_OK)
      kc_stop("no memory for a graph");
  }
  value **v = g->values;
  if (special) v[X]->x[0] = NAN; /* which goes through all */
  for (int64_t i = 0; i < m * n; i++) {
    real sum = 0;
    for (int64_t k = 0; k < n; k++)
      sum += v[X]->x[i / n * n + k] * v[W]->x[k * n + i % n];
    v[A]->x[i] = sum;
    v[A + 1]->x[i] = sum + v[ROW]->x[i % n];
    v[A + 2]->x[i] = v[A + 1]->x[i] < 0 ? 0 : v[A + 1]->x[i];
    v[A + 3]->x[i] = v[A + 2]->x[i] * v[X]->x[i];
    v[A + 4]->x[i] = v[A + 3]->x[i] + v[COLUMN]->x[i / n];
  }
  for (uint32_t i = 0; i < MIXED_NODES; i++) {
    const keel_type *types[2] = {g->graph.types[in[i][0]],
                                 g->graph.types[in[i][1]]};
    const keel_type *out = g->graph.types[A];
    g->ops[i] =
        (kc_op){.name = ops[i], .in_count = i == 2 ? 1 : 2, .out_count = 1};
    g->graph.nodes[i] = kc_node_typed(&g->ops[i], types, &out);
    memcpy(g->graph.inputs[i], in[i], sizeof in[i]);
    g->graph.outputs[i][0] = A + i;
  }
  g->graph.node_count = MIXED_NODES;
  g->graph.value_count = MIXED_VALUES;
  for (uint32_t i = 0; i < A; i++)
    g->graph.graph_inputs[g->graph.input_count++] = i;
  g->graph.graph_outputs[g->graph.output_count++] = MIXED_VALUES - 1;
}

static void mixed_free(mixed *g) {
  for (uint32_t i = 0; i < MIXED_NODES; i++)
    kc_node_free(g->graph.nodes[i]);
  for (uint32_t i = 0; i < MIXED_VALUES; i++)
    value_free(g->values[i]);
}

/* Some of its nodes as a graph: what they read from outside, and what is read there. */
static struct kd_graph mixed_part(const mixed *g, const uint32_t *nodes,
                                  uint32_t count) {
  struct kd_graph part = g->graph;
  bool inside[MIXED_NODES] = {false}, met[MIXED_VALUES] = {false};
  part.node_count = part.input_count = part.output_count = 0;
  for (uint32_t i = 0; i < count; i++)
    inside[nodes[i]] = true;
  for (uint32_t i = 0; i < MIXED_NODES; i++) {
    uint32_t at = part.node_count;
    if (!inside[i]) continue;
    part.nodes[at] = g->graph.nodes[i];
    memcpy(part.inputs[at], g->graph.inputs[i], sizeof part.inputs[at]);
    memcpy(part.outputs[at], g->graph.outputs[i], sizeof part.outputs[at]);
    part.node_count++;
    for (uint32_t k = 0; k < g->ops[i].in_count; k++) {
      uint32_t from = part.inputs[at][k];
      if (met[from] || (from >= A && inside[from - A])) continue;
      met[from] = true;
      part.graph_inputs[part.input_count++] = from;
    }
  }
  for (uint32_t i = 0; i < MIXED_NODES; i++)
    if (inside[i] && (i + 1 == MIXED_NODES || !inside[i + 1]))
      part.graph_outputs[part.output_count++] = A + i;
  return part;
}

static void check_part(const mixed *g, const struct kd_graph *part) {
  kd_region *region = NULL;
  value *in[KC_PORTS], *like[KC_PORTS];
  float *out[KC_PORTS];
  const char *first = g->ops[part->outputs[0][0] - A].name;
  kd_status status =
      KC_CALL(kd_status, kp.r.compile(kc_device(), part, &region),
              "region.compile(%u nodes, from %s)", part->node_count, first);
  if (status == KD_UNIMPLEMENTED) return;
  kc_ok(status, "region.compile");
  for (uint32_t i = 0; i < part->input_count; i++)
    in[i] = g->values[part->graph_inputs[i]];
  for (uint32_t i = 0; i < part->output_count; i++) {
    like[i] = g->values[part->graph_outputs[i]];
    out[i] = kc_take((uint64_t)like[i]->count * 4 + 4);
  }
  status = launch_region(region, in, part->input_count, like,
                         part->output_count, out);
  kc_check(status == KD_OK, "enqueue returned %s", kd_status_name(status));
  for (uint32_t i = 0; i < part->output_count; i++) {
    for (int64_t k = 0; status == KD_OK && k < like[i]->count; k++) {
      real want = like[i]->x[k];
      if (fabsl(out[i][k] - want) <= 1e-4L * (1 + fabsl(want))) continue;
      if (isnan(out[i][k]) && isnan(want)) continue;
      kc_check(false,
               "%u nodes, from %s: element %lld of %lld is %g, expected %Lg",
               part->node_count, first, (long long)k, (long long)like[i]->count,
               (double)out[i][k], want);
      break;
    }
    free(out[i]);
  }
  KC_DO(kp.r.destroy(region), "region.destroy");
}

static void region_parts(void) {
  static const int64_t sizes[][2] = {{1, 8}, {5, 7}, {4, 16}, {33, 40}, {3, 1}};
  kc_random random = kc_seed();
  uint32_t parts = 0;
  for (size_t i = 0; i < 2 * KC_COUNT_OF(sizes); i++) {
    const int64_t *size = sizes[i / 2];
    mixed g;
    mixed_make(&g, size[0], size[1], i % 2 == 1, &random);
    claims c = {.limit = MIXED_NODES};
    kc_ok(KC_CALL(kd_status, kp.r.claim(kc_device(), &g.graph, take, &c),
                  "region.claim"),
          "region.claim");
    for (uint32_t k = 0; k < c.count; k++, parts++) {
      struct kd_graph part = mixed_part(&g, c.nodes[k], c.sizes[k]);
      check_part(&g, &part);
    }
    mixed_free(&g);
  }
  if (!parts) kc_unclaimed("it claims nothing of MatMul, Add, Relu, Mul, Add");
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
    RULE("region.parts", region_parts, "constants among the inputs",
         "kd_region_table.compile kd_region_table.enqueue",
         "Tensors in another order than the graph's, and rows and columns that"
         " are added to what a product makes."),
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
