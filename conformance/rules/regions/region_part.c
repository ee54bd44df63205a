/* region_part.c - parts that the plugin claims: found, compiled, run. */
#include <math.h>

#include "rules/regions/region.h"
#include "rules/rules.h"

kc_claimed region_claim(const kc_sample *s) {
  kc_claimed claims = {.graph = &s->graph};
  kc_ok(kc_claim_of(&s->graph, &claims), "region.claim");
  return claims;
}

region_part region_part_of(const kc_sample *s, const kc_claimed *claims,
                           uint32_t index) {
  region_part p = {.of = s};
  kc_claim_part(claims, index, &p.graph);
  kc_part_text(&p.graph, p.text, sizeof p.text);
  return p;
}

kd_region *region_compile(const region_part *p) {
  kd_region *region = NULL;
  const kd_compile what = kc_compile(&p->graph);
  kd_status status =
      KC_CALL(kd_status, kp.r.compile(kc_device(), &what, &region),
              "region.compile(%.80s)", p->text);
  if (status == KD_UNIMPLEMENTED) {
    kc_check(*kc_message(), "compile refused %s without a message", p->text);
    return NULL;
  }
  kc_ok(status, "region.compile of what it claimed");
  KC_NEED(region != NULL, "compile returned KD_OK and no region");
  return region;
}

void region_destroy(kd_region *region) {
  kp.r.destroy(region);
}

/* A tensor's memory on the device, and its description. */
static kc_buffer *region_part_bind(const value *of, bool filled,
                                   kd_tensor *out) {
  uint64_t size = value_size(of);
  kc_buffer *buffer = kc_buffer_make(size + 4);
  if (filled && size) {
    void *bytes = kc_take(size);
    value_store(of, bytes);
    kc_write(buffer, 0, bytes, size);
    free(bytes);
  }
  *out = (kd_tensor){.buffer = buffer->handle,
                     .data = buffer->address,
                     .offset = buffer->offset,
                     .size = size,
                     .dims = of->dims,
                     .dtype = of->dtype,
                     .rank = of->rank};
  return buffer;
}

static kc_buffer *bind_scratch(kd_region *region, kd_launch *launch,
                               int64_t *dim) {
  if (!kp.r.workspace) return NULL;
  uint64_t size = kp.r.workspace(region, launch);
  if (!size) return NULL;
  kc_buffer *scratch = kc_buffer_make(size);
  *dim = (int64_t)size;
  launch->workspace = (kd_tensor){.buffer = scratch->handle,
                                  .data = scratch->address,
                                  .offset = scratch->offset,
                                  .size = size,
                                  .dims = dim,
                                  .dtype = KD_U8,
                                  .rank = 1};
  return scratch;
}

/* How far a region may be off: what the loosest of the plugin's kernels for its ops
 * declares, with room for sums in another order. */
static real room_of(const region_part *p) {
  real capacity = 1e-5L;
  for (uint32_t i = 0; i < p->graph.node_count; i++) {
    const kc_node *node = p->graph.nodes[i];
    kd_dtype dtype = p->graph.types[p->graph.outputs[i][0]]->dtype;
    const ref_op *ref = ref_find(NULL, node->op->schema->name);
    if (ref && ref->kind == REF_SUM) capacity = fmaxl(capacity, 1e-4L);
    capacity = fmaxl(capacity, 16 * dtype_unit(dtype));
    for (uint32_t k = 0; k < kp.kernel_count; k++) {
      if (!kc_def_fits(&kp.kernels[k], node)) continue;
      numerics within = kc_numerics(&kp.kernels[k], dtype);
      capacity = fmaxl(capacity, 16 * within.unit * within.factor);
    }
  }
  return capacity;
}

static void region_part_compare(const region_part *p, const kc_sample *data,
                                const value *want, const void *bytes,
                                const char *what) {
  value *got = value_make(want->dtype, want->rank, want->dims);
  real capacity = room_of(p);
  value_load(got, bytes);
  for (int64_t i = 0; i < want->count; i++) {
    real x = want->x[i], error = fabsl(got->x[i] - x);
    if (error <= capacity * (fabsl(x) + data->largest)) continue;
    if (isnan(x) && isnan(got->x[i])) continue;
    kc_check(false, "%s of %s, %s: element %lld of %lld is %Lg, expected %Lg",
             what, data->name, p->text, (long long)i, (long long)want->count,
             got->x[i], x);
    break;
  }
  value_free(got);
}

int region_lies_over(kd_region *region, const region_part *p, uint32_t output,
                     bool may) {
  const struct kd_graph *g = &p->graph;
  const kd_alias *aliases = NULL;
  uint32_t count = kp.r.aliases ? kp.r.aliases(region, &aliases) : 0;
  for (uint32_t i = 0; i < count; i++)
    if (aliases[i].output == output && aliases[i].input < g->input_count &&
        (may || (aliases[i].flags & KD_ALIAS_MUST)) &&
        g->types[g->graph_inputs[aliases[i].input]] ==
            g->types[g->graph_outputs[output]])
      return (int)aliases[i].input;
  return -1;
}

void region_check_laid(kd_region *region, const region_part *p,
                       const kc_sample *data, bool may, const char *what) {
  kd_tensor inputs[KC_PORTS], outputs[KC_PORTS];
  kc_buffer *from[KC_PORTS], *to[KC_PORTS];
  const struct kd_graph *g = &p->graph;
  int64_t dim = 0;
  kd_launch launch = {.struct_size = sizeof launch,
                      .input_count = g->input_count,
                      .output_count = g->output_count,
                      .inputs = inputs,
                      .outputs = outputs,
                      .device = kc_device()};
  for (uint32_t i = 0; i < g->input_count; i++)
    from[i] =
        region_part_bind(data->values[g->graph_inputs[i]], true, &inputs[i]);
  for (uint32_t i = 0; i < g->output_count; i++) {
    int over = region_lies_over(region, p, i, may);
    bool taken = over < 0;
    for (uint32_t k = 0; k < i; k++)
      taken |= over >= 0 && to[k] == from[over];
    to[i] = taken ? region_part_bind(data->values[g->graph_outputs[i]], false,
                                     &outputs[i])
                  : from[over];
    if (!taken) outputs[i] = inputs[over];
  }
  kc_buffer *scratch = bind_scratch(region, &launch, &dim);
  kd_stream *stream = kc_stream_or_none();
  kd_status status = kp.r.enqueue(region, stream, &launch);
  if (stream && status == KD_OK) status = kc_finish(stream);
  kc_check(status == KD_OK, "%s of %s, %s: enqueue returned %s", what,
           data->name, p->text, kd_status_name(status));
  for (uint32_t i = 0; i < g->output_count; i++) {
    char *bytes = kc_take(to[i]->size);
    if (to[i]->size > 4) kc_read(to[i], 0, bytes, to[i]->size - 4);
    if (status == KD_OK)
      region_part_compare(p, data, data->values[g->graph_outputs[i]], bytes,
                          what);
    free(bytes);
  }
  for (uint32_t i = 0; i < g->input_count; i++) {
    for (uint32_t k = 0; k < g->output_count; k++)
      if (to[k] == from[i]) to[k] = NULL;
    kc_buffer_free(from[i]);
  }
  for (uint32_t i = 0; i < g->output_count; i++)
    kc_buffer_free(to[i]);
  if (stream) kc_stream_free(stream);
  kc_buffer_free(scratch);
}

void region_check(kd_region *region, const region_part *p,
                  const kc_sample *data, const char *what) {
  region_check_laid(region, p, data, false, what);
}

kd_region *region_find(uint32_t *index, kc_random *random, region_part *out) {
  uint32_t first = *index;
  bool none = false;
  kc_sample *s = NULL;
  while ((s = kc_sample_at((*index)++, random, &none)) || none) {
    if (!s) continue;
    kc_claimed claims = region_claim(s);
    for (uint32_t i = 0; i < claims.count; i++) {
      *out = region_part_of(s, &claims, i);
      kd_region *region = region_compile(out);
      if (region) return region;
    }
    kc_sample_free(s);
  }
  if (!first)
    kc_untested("it compiles no part of %u graphs, of a list and by chance",
                *index - 1);
  return NULL;
}

kd_region *region_first(region_part *out) {
  kc_random random = kc_seed();
  uint32_t index = 0;
  return region_find(&index, &random, out);
}

void region_part_free(region_part *p) {
  kc_sample_free((kc_sample *)(uintptr_t)p->of);
}
