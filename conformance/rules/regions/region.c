/* region.c - a plugin's own compiler: claims, regions, blobs.
 *
 * Plugins claim what they are good at, so the rules look for graphs that this one
 * claims: of a list, then by chance (suite/sample.h). Where none is found, they say
 * so, and the level is not proven. */
#include "rules/regions/region.h"
#include "rules/rules.h"

/* ---- what this plugin claims ------------------------------------------------------ */

/* Compiles and runs all that it claims of a sample, and frees the sample; how many parts
 * there were. */
static uint32_t check_sample(kc_sample *s, int launches) {
  uint32_t parts = 0;
  if (!s) return 0;
  kc_claimed claims = region_claim(s);
  for (uint32_t i = 0; i < claims.count; i++) {
    region_part p = region_part_of(s, &claims, i);
    kd_region *region = region_compile(&p);
    if (!region) continue;
    for (int k = 0; k < launches; k++)
      region_check(region, &p, s, "a region");
    region_destroy(region);
    parts++;
  }
  kc_sample_free(s);
  return parts;
}

/* What plugins do that claim nothing of the graphs that a rule is written for: up to
 * eight parts of others. */
static void check_others(void) {
  kc_random random = kc_seed();
  uint32_t index = 0;
  for (int i = 0; i < 8; i++) {
    region_part p;
    kd_region *region = region_find(&index, &random, &p);
    if (!region) return;
    region_check(region, &p, p.of, "a region");
    region_destroy(region);
    region_part_free(&p);
  }
}

static const kc_sizes plain = {
    .m = 5, .n = 7, .rank = 1, .dims = {200}, .dtype = KD_F32};

/* A graph of which only a part may be claimed, and types are not known. */
static void check_shown(kc_sample *s, kc_random *random, bool all) {
  for (uint32_t i = 0; i < s->graph.node_count; i++)
    s->graph.shown_only[i] = all || kc_below(random, 2);
  kc_claimed claims = region_claim(s);
  kc_check(!claims.shown, "it claims a node of %s that is only shown", s->name);
  kc_sample_hide(s, random);
  kc_claimed hidden = {.graph = &s->graph};
  kd_status status = kc_claim_of(&s->graph, &hidden);
  kc_check(status == KD_OK, "claim returned %s where types of %s are not known",
           kd_status_name(status), s->name);
  kc_sample_free(s);
}

/* ---- the rules ---------------------------------------------------------------------- */

static void region_claim_honest(void) {
  kc_random random = kc_seed();
  uint32_t claimed = 0, parts = 0, chances = kc.quick ? 20 : 100;
  for (uint32_t i = 0; i < kc_sample_count + chances; i++) {
    kc_sample *s = i < kc_sample_count ? kc_sample_make(i, &plain, &random)
                                       : kc_sample_random(KD_F32, &random);
    if (!s) continue;
    kc_claimed claims = region_claim(s);
    kc_check(!claims.twice, "it claimed a node of %s twice", s->name);
    kc_check(!claims.outside, "it claimed a node that %s does not have",
             s->name);
    claimed += claims.count;
    if (i < kc_sample_count)
      parts += check_sample(s, 1);
    else
      kc_sample_free(s);
  }
  kc_note("%u claims", claimed);
  if (!parts) check_others();
}

static void region_aliases(void) {
  kc_random random = kc_seed();
  uint32_t index = 0, tried = 0;
  if (!kp.r.aliases) kc_unclaimed("region.aliases is NULL");
  for (int i = 0; i < 12; i++) {
    region_part p;
    kd_region *region = region_find(&index, &random, &p);
    if (!region) break;
    for (uint32_t k = 0; k < p.graph.output_count; k++)
      tried += region_lies_over(region, &p, k, true) >= 0;
    region_check_laid(region, &p, p.of, true, "outputs over inputs");
    region_destroy(region);
    region_part_free(&p);
  }
  if (!tried) kc_untested("no region has an alias of one type");
}

/* An If, whose graphs and types are not there: who claims Ifs looks for them. */
static void check_if(void) {
  const keel_type *f32[1] = {NULL}, *cond[1] = {NULL};
  const int64_t dim = 8;
  const kc_op op = {.name = "If",
                    .attrs = {{.name = "then_branch", .kind = KD_ATTR_GRAPH},
                              {.name = "else_branch", .kind = KD_ATTR_GRAPH}},
                    .attr_count = 2,
                    .in_count = 1,
                    .out_count = 1};
  KC_NEED(keel_type_of(KD_F32, 1, &dim, &f32[0]) == KD_OK &&
              keel_type_of(KD_BOOL, 0, NULL, &cond[0]) == KD_OK,
          "no memory");
  for (int i = 0; i < 2; i++) {
    const keel_type *out[] = {i ? &keel_type_unknown : f32[0]};
    struct kd_graph g = {.node_count = 1,
                         .value_count = 2,
                         .types = {cond[0], out[0]},
                         .inputs = {{0}},
                         .outputs = {{1}},
                         .graph_inputs = {0},
                         .graph_outputs = {1},
                         .input_count = 1,
                         .output_count = 1};
    g.nodes[0] = kc_node_typed(&op, cond, out);
    kc_claimed claims = {.graph = &g};
    kd_status status = kc_claim_of(&g, &claims);
    kc_check(status == KD_OK, "claim of an If returned %s",
             kd_status_name(status));
    kc_check(!claims.count, "it claims an If that has no graphs");
    kc_node_free(g.nodes[0]);
  }
}

static void region_claimable(void) {
  region_part p;
  kc_random random = kc_seed();
  region_destroy(region_first(&p)); /* it claims something */
  for (uint32_t i = 0; i < kc_sample_count; i++)
    for (int k = 0; k < 4; k++) {
      kc_sample *s = kc_sample_make(i, &plain, &random);
      if (s) check_shown(s, &random, k == 3);
    }
  check_if();
  for (int i = 0; i < (kc.quick ? 20 : 100); i++) {
    kc_sample *s = kc_sample_random(KD_F32, &random);
    if (s) check_shown(s, &random, false);
  }
  region_part_free(&p);
}

static void region_claim_pure(void) {
  region_part p;
  kc_random random = kc_seed();
  for (uint32_t i = 0; i < kc_sample_count; i++) {
    kc_sample *s = kc_sample_make(i, &plain, &random);
    if (!s) continue;
    kc_claimed first = region_claim(s);
    for (int k = 0; k < 5; k++) {
      kc_claimed again = region_claim(s);
      kc_check(first.count == again.count &&
                   !memcmp(first.owner, again.owner, sizeof first.owner),
               "claiming the graph %s again gives %u claims, not %u", s->name,
               again.count, first.count);
    }
    kc_sample_free(s);
  }
  region_destroy(region_first(&p));
  region_part_free(&p);
}

/* Every claim is refused: the plugin may go on. */
static void region_refused(void) {
  region_part p;
  region_destroy(region_first(&p)); /* it has something to be refused */
  kc_claimed claims = {.graph = &p.of->graph, .refuse_all = true};
  kd_status status = kc_claim_of(&p.of->graph, &claims);
  kc_check(status == KD_OK, "claim returned %s when its claims were refused",
           kd_status_name(status));
  kc_check(claims.refused, "it claimed a graph once and never again");
  region_part_free(&p);
  kc_smoke();
}

/* In f16 and bf16. Whether a region rounds what its ops hand to each other is its own affair:
 * results are as near as 16 roundings. */
static uint32_t check_halves(uint32_t index, kc_random *random) {
  static const kd_dtype halves[] = {KD_F16, KD_BF16};
  uint32_t parts = 0;
  for (size_t i = 0; i < KC_COUNT_OF(halves); i++) {
    kc_sizes sizes = {.rank = 2, .dims = {19, 5}, .dtype = halves[i]};
    parts += check_sample(kc_sample_make(index, &sizes, random), 1);
  }
  return parts;
}

/* The first graph that it claims in all shapes, others in some. */
static void region_equals(void) {
  static const kc_sizes shapes[] = {
      {.rank = 1, .dims = {1}},     {.rank = 1, .dims = {3}},
      {.rank = 1, .dims = {64}},    {.rank = 1, .dims = {1001}},
      {.rank = 2, .dims = {17, 5}}, {.rank = 3, .dims = {3, 4, 5}},
      {.rank = 0, .dims = {0}},     {.rank = 4, .dims = {1, 7, 1, 30}}};
  kc_random random = kc_seed();
  uint32_t parts = 0;
  for (uint32_t i = 0; i < kc_sample_count; i++) {
    if (kc_sample_kind(i) != KC_SAME_SHAPE) continue;
    uint32_t before = parts;
    for (size_t k = 0; k < KC_COUNT_OF(shapes); k++) {
      kc_sizes sizes = shapes[k];
      sizes.dtype = KD_F32;
      if (before && k != 3 && k != 4) continue;
      parts += check_sample(kc_sample_make(i, &sizes, &random), before ? 1 : 3);
    }
    parts += check_halves(i, &random);
  }
  for (int i = 0; i < (kc.quick ? 5 : 20) && parts; i++)
    parts += check_sample(kc_sample_random(KD_F32, &random), 1);
  if (!parts) check_others();
}

/* The first graph that it claims in all sizes, with and without a NaN; others in some. */
static void region_parts(void) {
  static const int64_t sizes[][2] = {{1, 8}, {5, 7}, {4, 16}, {33, 40}, {3, 1}};
  kc_random random = kc_seed();
  uint32_t parts = 0;
  for (uint32_t i = 0; i < kc_sample_count; i++) {
    if (kc_sample_kind(i) != KC_SHAPES) continue;
    uint32_t before = parts;
    for (size_t k = 0; k < 2 * KC_COUNT_OF(sizes); k++) {
      const int64_t *size = sizes[k / 2];
      if (before && k != 2 && k != 4) continue;
      kc_sizes all = {
          .m = size[0], .n = size[1], .dtype = KD_F32, .special = k % 2 == 1};
      parts += check_sample(kc_sample_make(i, &all, &random), 1);
    }
  }
  if (!parts) check_others();
}

/* ---- blobs ---------------------------------------------------------------------------- */

static void need_blobs(void) {
  if (!kp.r.serialize) kc_unclaimed("region.serialize is NULL");
}

static void *serialize(kd_region *region, uint64_t *out_size) {
  void *blob = NULL;
  kd_status status = kp.r.serialize(region, &blob, out_size);
  if (status == KD_UNIMPLEMENTED) {
    region_destroy(region);
    kc_unclaimed("it serialises no regions");
  }
  kc_ok(status, "region.serialize");
  KC_NEED(blob && *out_size, "serialize gave an empty blob");
  return blob;
}

static kd_status rules_region_validate(const void *blob, uint64_t size) {
  return kp.r.validate(kc_device(), blob, size);
}

static void region_serialise(void) {
  need_blobs();
  region_part p;
  uint64_t size = 0;
  kd_region *region = region_first(&p), *other = NULL;
  void *blob = serialize(region, &size);
  region_destroy(region);
  char *copy = kc_fenced(size);
  memcpy(copy, blob, size);
  kc_services()->release(kc_services(), blob);
  kc_tidy(); /* the device is closed and opened again */
  kd_status status = rules_region_validate(copy, size);
  kc_check(status == KD_OK, "validate of its own blob returned %s: %s",
           kd_status_name(status), kc_message());
  const kd_compile what = kc_compile(&p.graph);
  kc_ok(kp.r.load(kc_device(), &what, copy, size, &other), "region.load");
  region_check(other, &p, p.of, "a region that was loaded");
  region_destroy(other);
  region_part_free(&p);
}

/* A compiled form of one part, with another part's graph. */
static void region_other_graph(void) {
  need_blobs();
  kc_random random = kc_seed();
  uint32_t index = 0;
  region_part p, q = {0};
  uint64_t size = 0;
  kd_region *first = region_find(&index, &random, &p), *second = NULL;
  KC_NEED(first, "it claims nothing");
  void *blob = serialize(first, &size);
  while ((second = region_find(&index, &random, &q)) &&
         !strcmp(p.text, q.text)) {
    region_destroy(second);
    region_part_free(&q);
  }
  if (!second) kc_untested("it claims parts of one kind only");
  region_destroy(second);
  const kd_compile what = kc_compile(&q.graph);
  kd_region *wrong = NULL;
  kd_status status =
      KC_CALL(kd_status, kp.r.load(kc_device(), &what, blob, size, &wrong),
              "region.load(%.60s, of %.60s)", q.text, p.text);
  kc_check(status == KD_INCOMPATIBLE,
           "load of \"%s\" takes what was compiled of \"%s\": it returned %s",
           q.text, p.text, kd_status_name(status));
  if (status == KD_OK && wrong) region_destroy(wrong);
  kc_services()->release(kc_services(), blob);
  region_destroy(first);
  region_part_free(&p);
  region_part_free(&q);
}

static void region_other_device(void) {
  need_blobs();
  kc_need_two_devices();
  region_part p;
  uint64_t size = 0;
  kd_region *region = region_first(&p);
  void *blob = serialize(region, &size);
  kd_device *other = kc_device_at(kc.device ? 0 : 1);
  kd_status status = kp.r.validate(other, blob, size);
  bool same_kind = !strcmp(kc_info_at(0)->name, kc_info_at(1)->name);
  kc_check(same_kind || status == KD_INCOMPATIBLE,
           "another kind of device says %s of the blob",
           kd_status_name(status));
  kc_check(status == KD_OK || status == KD_INCOMPATIBLE, "validate returned %s",
           kd_status_name(status));
  kc_services()->release(kc_services(), blob);
  region_destroy(region);
  region_part_free(&p);
}

/* One damaged copy: cut off, or with a few bits turned anywhere. */
static void check_damaged(const region_part *p, const char *blob, uint64_t size,
                          bool cut, kc_random *random) {
  const kd_compile what = kc_compile(&p->graph);
  uint64_t less = cut ? kc_below(random, size) : size;
  char *copy = kc_take(less + 8);
  memcpy(copy, blob, less);
  if (!cut) {
    uint64_t flips = 1 + kc_below(random, 3);
    for (uint64_t k = 0; k < flips; k++)
      copy[kc_below(random, less)] ^= (char)(1 << kc_below(random, 8));
  }
  bool same = less == size && !memcmp(copy, blob, size);
  kd_status status = rules_region_validate(copy, less);
  kc_check(status == KD_DATA_LOSS || status == KD_INCOMPATIBLE || same,
           "a damaged blob (%llu of %llu bytes) is %s",
           (unsigned long long)less, (unsigned long long)size,
           kd_status_name(status));
  if (status == KD_OK) { /* what it takes, it must be able to load */
    kd_region *other = NULL;
    status =
        KC_CALL(kd_status, kp.r.load(kc_device(), &what, copy, less, &other),
                "region.load(damaged)");
    if (status == KD_OK) region_destroy(other);
  }
  free(copy);
}

static void region_mutated(void) {
  need_blobs();
  region_part p;
  kc_random random = kc_seed();
  uint64_t size = 0;
  kd_region *region = region_first(&p);
  char *blob = serialize(region, &size), nothing = 0;
  for (int i = 0; i < (kc.quick ? 200 : 1500); i++)
    check_damaged(&p, blob, size, i % 3 == 0, &random);
  kc_check(rules_region_validate(&nothing, 0) != KD_OK,
           "an empty blob is valid");
  kc_services()->release(kc_services(), blob);
  region_destroy(region);
  region_part_free(&p);
}

/* ---- odd graphs, sizes, threads ---------------------------------------------------------- */

/* Edges to nowhere, self-made cycles, nodes and outputs that are not there. */
static void check_odd(struct kd_graph odd, int i, kc_random *random) {
  uint32_t nodes = odd.node_count, values = odd.value_count;
  for (int k = 0; k < 3; k++) {
    uint32_t node = (uint32_t)kc_below(random, nodes);
    uint32_t to = (uint32_t)kc_below(random, values + 3);
    odd.inputs[node][kc_below(random, 2)] = to < values ? to : UINT32_MAX;
  }
  if (i % 7 == 0) odd.node_count = (uint32_t)kc_below(random, nodes);
  if (i % 5 == 0) odd.output_count = 0;
  kc_claimed claims = {0};
  kd_status status = kc_claim_of(&odd, &claims);
  kc_check(status >= 0 && status <= KD_BUSY, "claim returned %d", status);
  kd_region *region = NULL;
  const kd_compile what = kc_compile(&odd);
  status = KC_CALL(kd_status, kp.r.compile(kc_device(), &what, &region),
                   "region.compile(odd graph)");
  kc_check(status == KD_OK || *kc_message(),
           "compile refused a graph without a message");
  if (status == KD_OK && region) region_destroy(region);
}

static void region_odd_graphs(void) {
  kc_random random = kc_seed();
  region_part p;
  region_destroy(region_first(&p));
  kc_sample *diamond = kc_sample_make(0, &plain, &random);
  for (int i = 0; i < (kc.quick ? 300 : 10000); i++)
    check_odd(i % 2 ? p.graph : diamond->graph, i / 2, &random);
  kc_sample_free(diamond);
  region_part_free(&p);
}

static void region_empty(void) {
  kc_random random = kc_seed();
  kc_sample *s = kc_sample_make(0, &plain, &random);
  struct kd_graph empty = s->graph;
  empty.node_count = 0;
  kc_claimed claims = {0};
  kd_status status = kc_claim_of(&empty, &claims);
  kc_check(status == KD_OK && !claims.count,
           "claim of an empty graph returned %s and %u claims",
           kd_status_name(status), claims.count);
  kc_sample_free(s);
}

static kc_sample *sized(uint32_t index, int64_t size, kc_random *random) {
  kc_sizes sizes = {
      .m = size, .n = 7, .rank = 1, .dims = {size}, .dtype = KD_F32};
  return kc_sample_make(index, &sizes, random);
}

/* Compiles what it claims of a graph that does not tell its sizes, and runs it on several;
 * whether there was anything. */
static bool check_dynamic(uint32_t index, kc_random *random) {
  static const int64_t sizes[] = {40, 7, 300, 1, 40};
  kc_sample *s = sized(index, 40, random), *other = sized(index, 41, random);
  kc_sample_forget(s, other);
  kc_claimed claims = region_claim(s);
  for (uint32_t i = 0; i < claims.count; i++) {
    region_part p = region_part_of(s, &claims, i);
    kd_region *region = region_compile(&p);
    for (size_t k = 0; k < KC_COUNT_OF(sizes) && region; k++) {
      kc_sample *data = sized(index, sizes[k], random);
      region_check(region, &p, data, "a region for any size");
      kc_sample_free(data);
    }
    if (region) region_destroy(region);
  }
  kc_sample_free(s);
  kc_sample_free(other);
  return claims.count > 0;
}

/* Sizes that come with the launch: each is as good as the first. */
static void region_dynamic(void) {
  kc_random random = kc_seed();
  uint32_t claimed = 0;
  for (uint32_t i = 0; i < kc_sample_count && claimed < 3; i++)
    claimed += check_dynamic(i, &random);
  if (!claimed) kc_unclaimed("it claims no graph whose sizes are not known");
}

static void compile_there(void *context, uint32_t index) {
  const region_part *p = (const region_part *)context + index;
  for (int i = 0; i < (kc.quick ? 20 : 60); i++) {
    kd_region *region = region_compile(p);
    if (!kc_check(region != NULL, "%s can't be compiled beside others",
                  p->text))
      return;
    region_check(region, p, p->of, "a region compiled beside others");
    region_destroy(region);
  }
}

/* Parts that differ, as far as there are some: what is mixed up shows. */
static void region_threads(void) {
  region_part all[4];
  kc_random random = kc_seed();
  uint32_t index = 0, count = 0;
  while (count < 4) {
    kd_region *region = region_find(&index, &random, &all[count]);
    if (!region) break;
    region_destroy(region);
    count++;
  }
  for (uint32_t i = count; i < 4; i++)
    all[i] = all[i % count];
  kc_threads(4, compile_there, all);
  for (uint32_t i = 0; i < count; i++)
    region_part_free(&all[i]);
}

#define RULE(id, check, sentence, names, about) \
  KC_RULE(MUST, COMPILE, id, check, 0, "region.h", sentence, names, about)

static const kc_rule rules[] = {
    RULE("region.claim-honest", region_claim_honest,
         "a connected part of a graph that no path leaves and enters"
         " again",
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
    RULE(
        "region.claimable", region_claimable,
        "It may claim the nodes that kd_graph_table.claimable allows",
        "kd_region_table.claim kd_graph_table.claimable"
        " kd_graph_table.value_name kd_graph_table.value_type"
        " kd_node_table.attr_count kd_node_table.attr_name"
        " kd_node_table.attr_graph",
        "The plugin sees what stands around: nodes of other devices, and values"
        " whose types are not known yet."),
    RULE("region.claim-pure", region_claim_pure,
         "Looks at a graph and hands over claims", "kd_region_table.claim",
         "The host may ask twice, and plans by the answer."),
    RULE("region.claim-refused", region_refused,
         "After any other status the claim is dropped, and the plugin"
         " may go on",
         "kd_region_table.claim kd_claim KD_INVALID_ARGUMENT kd_part.nodes"
         " kd_part.node_count kd_part.cost kd_part.struct_size kd_part.flags"
         " kd_part.reserved",
         "A refused claim is no failure."),
    RULE("region.equals-ops", region_equals,
         "Its inputs and outputs are the graph's, in order",
         "kd_region_table.compile kd_region_table.workspace"
         " kd_region_table.enqueue",
         "Fused or not, the numbers are the ops', in f16 and bf16 as in f32."),
    RULE("region.parts", region_parts, "Constants are among the inputs",
         "kd_region_table.compile kd_region_table.enqueue",
         "Tensors in another order than the graph's, and rows and columns that"
         " are added to what a product makes."),
    RULE("region.aliases", region_aliases,
         "Which outputs of a region share the memory of inputs",
         "kd_region_table.aliases",
         "An output that is begun before an input is read changes the input."),
    RULE("region.serialise", region_serialise,
         "Returns the compiled form, in memory from kd_host.allocate"
         " that the host releases",
         "kd_region_table.serialize kd_region_table.validate"
         " kd_region_table.load",
         "A blob that points into the process that made it."),
    RULE("region.other-graph", region_other_graph,
         "KD_INCOMPATIBLE (the blob is of another graph; the host"
         " compiles)",
         "kd_region_table.load kd_compile.graph kd_compile.struct_size"
         " kd_compile.flags kd_compile.numerics kd_compile.reserved",
         "A store's keys may clash, and files be renamed: the numbers would be"
         " another graph's."),
    RULE("region.other-device", region_other_device,
         "Whether a blob, from anywhere and not to be trusted, fits this"
         " device and driver",
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
            "kd_type.dims kd_region_table.compile kd_region_table.enqueue"
            " KD_PART_ANY_SHAPE",
            "Code that was made for the first size is used for the next."),
    RULE("region.empty-graph", region_empty,
         "Returns KD_OK, even if it claims nothing", "kd_region_table.claim",
         "Nothing to claim is no failure."),
    RULE("region.apart", region_apart,
         "Its inputs and outputs are the graph's, in order",
         "kd_region_table.compile kd_region_table.load KD_INCOMPATIBLE",
         "Compilers keep what they have compiled by a key: one that has the ops"
         " and types, and not the wiring, attributes, constants or order of"
         " outputs, gives another graph's results."),
    RULE("region.threads", region_threads, "Compiles one claimed part",
         "kd_region_table.compile", "Hosts compile parts on several threads."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(claims_overlap, "region.claim-honest", "two claims share a node"),
    DEFECT(claims_shown, "region.claimable", "nodes that are only shown are claimed"),
    DEFECT(claims_if, "region.claimable", "an If is claimed whose graphs were not looked at"),
    DEFECT_AS(claims_once, "region.claim-pure", KC_AROUND, "a second claim of a graph is empty"),
    DEFECT(claim_stubborn, "region.claim-refused", "a refused claim is a failure"),
    DEFECT(fuses_wrongly, "region.equals-ops", "a fused Add is a Sub"),
    DEFECT(chain_skips, "region.equals-ops", "linear chains alone are claimed, and lose their second op"),
    DEFECT(region_halves, "region.equals-ops", "a region of bf16 takes its data for f16"),
    DEFECT(region_eights, "region.equals-ops", "a region of f16 keeps three bits of each result"),
    DEFECT(first_dim, "region.equals-ops", "a region computes the first dimension's elements"),
    DEFECT(inputs_turned, "region.parts", "a region takes its inputs from the last to the first"),
    DEFECT(region_by_ops, "region.apart", "compiled regions are kept by their ops"),
    DEFECT(region_by_wiring, "region.apart", "compiled regions are kept by ops and wiring, without the order of inputs"),
    DEFECT(blob_by_ops, "region.apart", "a compiled form is taken for each graph of equal ops"),
    DEFECT(region_alias_lie, "region.aliases", "a region begins its output before it has read an input that may lie there"),
    DEFECT(blob_points, "region.serialise", "a blob holds a pointer"),
    DEFECT(blob_any_graph, "region.other-graph", "a compiled form is taken for any graph"),
    DEFECT_AS(blob_anywhere, "region.other-device", KC_AROUND, "a blob fits any device"),
    DEFECT(blob_unchecked, "region.mutated-blob", "a blob has no checksum"),
    DEFECT(graph_unchecked, "region.odd-graphs", "values are followed without a look"),
    DEFECT(first_size, "region.dynamic-shapes", "a region keeps the first launch's size"),
    DEFECT(claims_nothing, "region.empty-graph", "an empty graph is claimed"),
    DEFECT_AS(compile_static, "region.threads", KC_RACE, "compiling uses static memory"),
};
/* clang-format on */

KC_AREA(region, "Compiled regions");
