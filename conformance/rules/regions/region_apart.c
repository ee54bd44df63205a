/* region_apart.c - regions that are alike, and not the same. */
#include "rules/regions/region.h"
#include "rules/rules.h"

/* Two parts of equal ops and types, and how they differ. */
typedef struct pair {
  region_part a, b;
  const char *how;
} pair;

static uint32_t tried;

static void run_both(const pair *p, kd_region *a, kd_region *b) {
  char what[96];
  snprintf(what, sizeof what, "beside a region that differs in %s alone, one",
           p->how);
  region_check(a, &p->a, p->a.of, what);
  region_check(b, &p->b, p->b.of, what);
  region_check(a, &p->a, p->a.of, what);
}

/* The compiled form of one, with the other's graph, where that was compiled before. */
static void load_other(const pair *p, kd_region *a) {
  void *blob = NULL;
  uint64_t size = 0;
  kd_region *loaded = NULL;
  if (!kp.r.serialize || kp.r.serialize(a, &blob, &size) != KD_OK) return;
  const kd_compile other = kc_compile(&p->b.graph),
                   own = kc_compile(&p->a.graph);
  kd_status status =
      KC_CALL(kd_status, kp.r.load(kc_device(), &other, blob, size, &loaded),
              "region.load(differs in %s)", p->how);
  kc_check(status == KD_OK || status == KD_INCOMPATIBLE,
           "load of a form that differs in %s returned %s", p->how,
           kd_status_name(status));
  if (status == KD_OK && loaded) {
    region_check(loaded, &p->b, p->b.of, "loaded from a form of another, one");
    region_destroy(loaded);
  }
  loaded = NULL;
  status = KC_CALL(kd_status, kp.r.load(kc_device(), &own, blob, size, &loaded),
                   "region.load(its own)");
  kc_ok(status, "region.load");
  region_check(loaded, &p->a, p->a.of,
               "loaded where another was compiled, one");
  region_destroy(loaded);
  kc_services()->release(kc_services(), blob);
}

static void check_pair(const pair *p) {
  kd_region *a = region_compile(&p->a), *b = a ? region_compile(&p->b) : NULL;
  if (b) {
    tried++;
    run_both(p, a, b);
    load_other(p, a);
    region_destroy(b);
  }
  if (a) region_destroy(a);
}

/* What it claims of two samples, as far as the claims are of the same nodes. */
static void check_samples(const kc_sample *x, const kc_sample *y,
                          const char *how) {
  kc_claimed of_x = region_claim(x), of_y = region_claim(y);
  if (of_x.count != of_y.count ||
      memcmp(of_x.owner, of_y.owner, sizeof of_x.owner) != 0)
    return;
  for (uint32_t i = 0; i < of_x.count; i++) {
    const pair p = {region_part_of(x, &of_x, i), region_part_of(y, &of_y, i),
                    how};
    bool alike = p.a.graph.input_count == p.b.graph.input_count &&
                 p.a.graph.output_count == p.b.graph.output_count &&
                 !strcmp(p.a.text, p.b.text);
    if (alike) check_pair(&p);
  }
}

static void region_apart_turn(uint32_t *ids, uint32_t count) {
  for (uint32_t i = 0; i < count / 2; i++) {
    uint32_t id = ids[i];
    ids[i] = ids[count - 1 - i];
    ids[count - 1 - i] = id;
  }
}

/* The same part, with its inputs or outputs in the other order. */
static void check_orders(const kc_sample *s) {
  kc_claimed claims = region_claim(s);
  for (uint32_t i = 0; i < claims.count; i++) {
    pair p = {.a = region_part_of(s, &claims, i), .how = "its inputs' order"};
    p.b = p.a;
    struct kd_graph *g = &p.b.graph;
    region_apart_turn(g->graph_inputs, g->input_count);
    if (g->input_count > 1) check_pair(&p);
    if (g->output_count < 2) continue;
    p.b = p.a;
    p.how = "its outputs' order";
    region_apart_turn(g->graph_outputs, g->output_count);
    check_pair(&p);
  }
}

static void check_sample(uint32_t index, const kc_sizes *sizes,
                         kc_random *random) {
  kc_random same = *random;
  uint32_t ways = kc.quick ? 1 : 3;
  kc_sample *s = kc_sample_make(index, sizes, &same), *other = NULL;
  if (!s) return;
  check_orders(s);
  for (uint32_t way = 0; way < ways; way++) {
    same = *random;
    other = kc_sample_rewired(index, sizes, &same, way);
    if (!other) break;
    check_samples(s, other, "what its nodes read");
    kc_sample_free(other);
  }
  same = *random;
  other = kc_sample_adjusted(index, sizes, &same);
  if (other) check_samples(s, other, "an attribute");
  kc_sample_free(other);
  kc_next(random);
  other = kc_sample_make(index, sizes, random);
  bool constants = false;
  for (uint32_t i = 0; i < s->graph.value_count; i++)
    constants |= s->constants[i] != NULL;
  if (other && constants) check_samples(s, other, "its constants' values");
  kc_sample_free(other);
  kc_sample_free(s);
}

void region_apart(void) {
  static const kc_sizes sizes = {
      .m = 5, .n = 7, .rank = 2, .dims = {17, 5}, .dtype = KD_F32};
  kc_random random = kc_seed();
  tried = 0;
  for (uint32_t i = 0; i < kc_sample_count; i++)
    check_sample(i, &sizes, &random);
  for (int i = 0; i < (kc.quick ? 4 : 8); i++) {
    kc_sample *s = kc_sample_random(KD_F32, &random);
    check_orders(s);
    kc_sample_free(s);
  }
  kc_note("%u pairs", tried);
  if (!tried) kc_unclaimed("it claims no two parts of equal ops and types");
}
