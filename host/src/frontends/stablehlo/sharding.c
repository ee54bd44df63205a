/* sharding.c - values that are split among devices, as Shardy's dialect says, and bodies that
 * each device runs on its parts (jax.shard_map).
 *
 * Keel does not partition programs: outside of such bodies each device has whole values, and
 * what is split is gathered first. So any program is right on several devices, and what is in
 * a body is faster for them.
 *
 * Facts of the encoding: Shardy's bytecode.td. */
#include "frontends/stablehlo/lower.h"

#define AXES_MOST 16

/* Shardy's codes of attributes, and MLIR's of a symbol's name. */
enum {
  MANUAL_AXES = 0,
  MESH_AXIS = 1,
  MESH = 2,
  AXIS_REF = 4,
  DIMENSION = 5,
  SHARDING = 6,
  PER_VALUE = 7,
  SYMBOL = 4
};

/* The devices as a grid, in row-major order. */
typedef struct mesh {
  uint32_t count;
  const char *names[AXES_MOST];
  int64_t sizes[AXES_MOST];
} mesh;

typedef struct splits {
  mesh mesh;
  uint32_t rank;
  uint32_t counts[KD_MAX_RANK]; /* of axes, by dimension */
  uint32_t axes[KD_MAX_RANK][AXES_MOST];
} splits;

/* ---- reading --------------------------------------------------------------------------- */

static keel_status open_as(const hlo *h, uint32_t attribute,
                           const char *dialect, uint64_t want,
                           bytecode_cursor *out_cursor) {
  const bytecode_entry *entry = &h->v.file.attributes[attribute];
  uint64_t code = UINT64_MAX;
  *out_cursor = bytecode_of_entry(&h->v.file, entry);
  if (entry->custom && !strcmp(entry->dialect, dialect))
    KEEL_TRY(bytecode_varint(out_cursor, &code));
  if (code == want) return KD_OK;
  return keel_fail(KD_UNIMPLEMENTED,
                   "%s: the sharding of values is in a form that Keel does not "
                   "know (%s attribute %lld, and %llu is needed)",
                   h->v.file.path, entry->dialect,
                   code == UINT64_MAX ? -1LL : (long long)code,
                   (unsigned long long)want);
}

static keel_status read_string(const hlo *h, bytecode_cursor *c,
                               const char **out_text) {
  uint32_t string = 0;
  KEEL_TRY(bytecode_index(c, h->v.file.string_count, "string", &string));
  *out_text = h->v.file.strings[string].text;
  return KD_OK;
}

static keel_status read_attribute(const hlo *h, bytecode_cursor *c,
                                  uint32_t *out_attribute) {
  return bytecode_index(c, h->v.file.attribute_count, "attribute",
                        out_attribute);
}

static keel_status members_of(const hlo *h, const mesh *of,
                              int64_t *out_members) {
  *out_members = 1;
  for (uint32_t i = 0; i < of->count; i++)
    if ((*out_members *= of->sizes[i]) > 1024)
      return keel_fail(KD_UNIMPLEMENTED,
                       "%s: a mesh has more than 1024 devices", h->v.file.path);
  return KD_OK;
}

static keel_status read_mesh(const hlo *h, uint32_t attribute, mesh *out) {
  bytecode_cursor c, axis;
  uint32_t index = 0, ids = 0;
  int64_t members = 0;
  *out = (mesh){0};
  KEEL_TRY(open_as(h, attribute, "sdy", MESH, &c));
  KEEL_TRY(bytecode_count(&c, 1, "axes", &out->count));
  if (out->count > AXES_MOST)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: a mesh of devices has %u axes, and Keel takes up to"
                     " %d",
                     h->v.file.path, (unsigned)out->count, AXES_MOST);
  for (uint32_t i = 0; i < out->count; i++) {
    KEEL_TRY(read_attribute(h, &c, &index));
    KEEL_TRY(open_as(h, index, "sdy", MESH_AXIS, &axis));
    KEEL_TRY(read_string(h, &axis, &out->names[i]));
    KEEL_TRY(bytecode_signed(&axis, &out->sizes[i]));
    if (out->sizes[i] < 1 || out->sizes[i] > 1024)
      return bytecode_damaged(&axis, "a mesh has %lld devices in a row",
                              (long long)out->sizes[i]);
  }
  KEEL_TRY(bytecode_count(&c, 1, "devices", &ids));
  KEEL_TRY(members_of(h, out, &members));
  return ids ? keel_fail(KD_UNIMPLEMENTED,
                         "%s: a mesh names its devices in an order of its own;"
                         " make it of the devices in their order",
                         h->v.file.path)
             : KD_OK;
}

/* An attribute of an op of Shardy: the `index`-th of its properties, or by its name. */
static keel_status sharding_find(const hlo *h, const bytecode_op *op,
                                 uint32_t index, const char *name,
                                 uint32_t *out_attribute) {
  if (op->properties == BYTECODE_NONE) {
    KEEL_TRY(vhlo_find(&h->v, op, name, out_attribute));
    return *out_attribute != BYTECODE_NONE
               ? KD_OK
               : vhlo_fail(&h->v, op, KD_DATA_LOSS, " has no attribute \"%s\"",
                           name);
  }
  const bytecode_span *span = &h->v.file.properties[op->properties];
  bytecode_cursor c = {&h->v.file, span->at, span->end};
  for (uint32_t i = 0; i <= index; i++)
    KEEL_TRY(read_attribute(h, &c, out_attribute));
  return KD_OK;
}

static keel_status string_of(const hlo *h, uint32_t attribute,
                             const char **out_text) {
  bytecode_cursor c;
  KEEL_TRY(open_as(h, attribute, "builtin", 2, &c));
  return read_string(h, &c, out_text);
}

/* The mesh of the module with a name. */
static keel_status named_mesh(const hlo *h, const char *name, mesh *out) {
  const bytecode_block *module = hlo_module(h);
  for (uint32_t i = 0; module && i < module->op_count; i++) {
    const bytecode_op *op = &module->ops[i];
    const char *text = "";
    uint32_t attribute = 0;
    if (strcmp(op->dialect, "sdy") != 0 || strcmp(op->name, "mesh") != 0)
      continue;
    KEEL_TRY(sharding_find(h, op, 1, "sym_name", &attribute));
    KEEL_TRY(string_of(h, attribute, &text));
    if (strcmp(text, name) != 0) continue;
    KEEL_TRY(sharding_find(h, op, 0, "mesh", &attribute));
    return read_mesh(h, attribute, out);
  }
  return keel_fail(KD_DATA_LOSS, "%s: there is no mesh of devices \"%s\"",
                   h->v.file.path, name);
}

static keel_status mesh_of(const hlo *h, uint32_t attribute, mesh *out) {
  const bytecode_entry *entry = &h->v.file.attributes[attribute];
  const char *name = "";
  bytecode_cursor c;
  if (!strcmp(entry->dialect, "sdy")) return read_mesh(h, attribute, out);
  KEEL_TRY(open_as(h, attribute, "builtin", SYMBOL, &c));
  KEEL_TRY(read_attribute(h, &c, &attribute));
  KEEL_TRY(string_of(h, attribute, &name));
  return named_mesh(h, name, out);
}

static keel_status read_axis(const hlo *h, uint32_t attribute, const mesh *of,
                             uint32_t *out_axis) {
  bytecode_cursor c;
  const char *name = "";
  uint64_t part = 0;
  KEEL_TRY(open_as(h, attribute, "sdy", AXIS_REF, &c));
  KEEL_TRY(read_string(h, &c, &name));
  KEEL_TRY(bytecode_varint(&c, &part));
  if (part)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: a value is sharded along a part of axis \"%s\"",
                     h->v.file.path, name);
  for (uint32_t i = 0; i < of->count; i++)
    if (!strcmp(of->names[i], name)) {
      *out_axis = i;
      return KD_OK;
    }
  return bytecode_damaged(&c, "the mesh has no axis \"%s\"", name);
}

static keel_status read_dimension(const hlo *h, uint32_t attribute, splits *to,
                                  uint32_t dimension) {
  bytecode_cursor c;
  uint32_t index = 0, count = 0;
  KEEL_TRY(open_as(h, attribute, "sdy", DIMENSION, &c));
  KEEL_TRY(bytecode_count(&c, 1, "axes", &count));
  if (count > to->mesh.count)
    return bytecode_damaged(&c, "a dimension is split by %u axes of %u",
                            (unsigned)count, (unsigned)to->mesh.count);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t axis = 0;
    KEEL_TRY(read_attribute(h, &c, &index));
    KEEL_TRY(read_axis(h, index, &to->mesh, &axis));
    if (to->mesh.sizes[axis] > 1)
      to->axes[dimension][to->counts[dimension]++] = axis;
  }
  return KD_OK;
}

/* Each axis once. */
static keel_status check_axes(const bytecode_cursor *c, const splits *of) {
  bool seen[AXES_MOST] = {false};
  for (uint32_t i = 0; i < of->rank; i++)
    for (uint32_t k = 0; k < of->counts[i]; k++) {
      if (seen[of->axes[i][k]])
        return bytecode_damaged(c, "a value is split by axis \"%s\" twice",
                                of->mesh.names[of->axes[i][k]]);
      seen[of->axes[i][k]] = true;
    }
  return KD_OK;
}

static keel_status read_sharding(const hlo *h, uint32_t attribute,
                                 splits *out) {
  bytecode_cursor c;
  uint32_t index = 0;
  *out = (splits){0};
  KEEL_TRY(open_as(h, attribute, "sdy", SHARDING, &c));
  KEEL_TRY(read_attribute(h, &c, &index));
  KEEL_TRY(mesh_of(h, index, &out->mesh));
  KEEL_TRY(bytecode_count(&c, 1, "dimensions", &out->rank));
  if (out->rank > KD_MAX_RANK)
    return bytecode_damaged(&c, "a value of rank %u is split",
                            (unsigned)out->rank);
  for (uint32_t i = 0; i < out->rank; i++) {
    KEEL_TRY(read_attribute(h, &c, &index));
    KEEL_TRY(read_dimension(h, index, out, i));
  }
  return check_axes(&c, out);
}

static int64_t parts_of(const splits *of, uint32_t dimension) {
  int64_t parts = 1;
  for (uint32_t i = 0; i < of->counts[dimension]; i++)
    parts *= of->mesh.sizes[of->axes[dimension][i]];
  return parts;
}

/* ---- what a device has ------------------------------------------------------------------ */

keel_status hlo_sharding(const hlo *h, uint32_t attribute,
                         uint32_t *out_sharding) {
  splits read;
  *out_sharding = 0;
  KEEL_TRY(read_sharding(h, attribute, &read));
  for (uint32_t i = 0; i < read.rank; i++)
    if (read.counts[i]) *out_sharding = attribute + 1;
  return KD_OK;
}

keel_status hlo_part_dims(const hlo *h, const bytecode_op *op,
                          uint32_t sharding, uint32_t rank, int64_t *dims) {
  splits read;
  if (!sharding) return KD_OK;
  KEEL_TRY(read_sharding(h, sharding - 1, &read));
  for (uint32_t i = 0; i < read.rank && i < rank; i++) {
    int64_t parts = parts_of(&read, i);
    if (dims[i] < 0 || dims[i] % parts)
      return vhlo_fail(&h->v, op, KD_UNIMPLEMENTED,
                       ": dimension %u of a value has %lld elements, which do "
                       "not divide evenly into %lld shards",
                       (unsigned)i, (long long)dims[i], (long long)parts);
    dims[i] /= parts;
  }
  return read.rank == rank
             ? KD_OK
             : vhlo_fail(&h->v, op, KD_DATA_LOSS,
                         ": a value of rank %u is split as one of rank %u",
                         (unsigned)rank, (unsigned)read.rank);
}

/* The mesh's axes of more than one device: first those that split the value, in that order. */
static uint32_t order_axes(const splits *of, uint32_t *order) {
  bool used[AXES_MOST] = {false};
  uint32_t count = 0;
  for (uint32_t i = 0; i < of->rank; i++)
    for (uint32_t k = 0; k < of->counts[i]; k++) {
      order[count++] = of->axes[i][k];
      used[of->axes[i][k]] = true;
    }
  for (uint32_t i = 0; i < of->mesh.count; i++)
    if (!used[i] && of->mesh.sizes[i] > 1) order[count++] = i;
  return count;
}

/* Whether b is the next axis behind a, but for those of one device. */
static bool follows(const mesh *of, uint32_t a, uint32_t b) {
  while (++a < b)
    if (of->sizes[a] > 1) return false;
  return a == b;
}

/* "<=[2,4]T(1,0)": the devices in the order of the parts; axes that stay together are one, as
 * XLA writes them. */
static void sharding_add_devices(const splits *of, keel_text *to) {
  uint32_t order[AXES_MOST], first[AXES_MOST], count = order_axes(of, order);
  int64_t sizes[AXES_MOST];
  uint32_t runs = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (!i || !follows(&of->mesh, order[i - 1], order[i])) {
      first[runs] = order[i];
      sizes[runs++] = 1;
    }
    sizes[runs - 1] *= of->mesh.sizes[order[i]];
  }
  uint32_t places[AXES_MOST]; /* of each run, in the mesh */
  for (uint32_t i = 0; i < runs; i++) {
    places[i] = 0;
    for (uint32_t k = 0; k < runs; k++)
      places[i] += first[k] < first[i];
  }
  keel_text_add(to, "<=[");
  for (uint32_t place = 0; place < runs; place++)
    for (uint32_t i = 0; i < runs; i++)
      if (places[i] == place)
        keel_text_add(to, "%s%lld", place ? "," : "", (long long)sizes[i]);
  keel_text_add(to, "]");
  for (uint32_t i = 0; i < runs && runs > 1; i++)
    keel_text_add(to, "%s%u%s", i ? "," : "T(", (unsigned)places[i],
                  i + 1 < runs ? "" : ")");
}

keel_status hlo_sharding_text(const hlo *h, uint32_t sharding, char *text,
                              size_t size) {
  splits read;
  int64_t used = 1, members = 0;
  keel_text all = {0};
  KEEL_TRY(read_sharding(h, sharding - 1, &read));
  KEEL_TRY(members_of(h, &read.mesh, &members));
  keel_text_add(&all, "{devices=[");
  for (uint32_t i = 0; i < read.rank; i++) {
    keel_text_add(&all, "%s%lld", i ? "," : "", (long long)parts_of(&read, i));
    used *= parts_of(&read, i);
  }
  if (used < members) keel_text_add(&all, ",%lld", (long long)(members / used));
  keel_text_add(&all, "]");
  sharding_add_devices(&read, &all);
  keel_text_add(&all, "%s}", used < members ? " last_tile_dim_replicate" : "");
  snprintf(text, size, "%s", keel_text_get(&all));
  keel_text_free(&all);
  return KD_OK;
}

/* ---- from one to another ------------------------------------------------------------------ */

/* Ranks whose parts of a dimension make one whole, in the order of the parts; set after set. */
static void list_ranks(const splits *of, uint32_t dimension, int64_t members,
                       int64_t *ranks) {
  int64_t inner[AXES_MOST], stride = 1, parts = parts_of(of, dimension);
  for (uint32_t i = of->mesh.count; i-- > 0;) {
    inner[i] = stride;
    stride *= of->mesh.sizes[i];
  }
  int64_t set = 0;
  for (int64_t rank = 0; rank < members; rank++) {
    bool first = true; /* of its set */
    for (uint32_t i = 0; i < of->counts[dimension]; i++) {
      uint32_t axis = of->axes[dimension][i];
      first &= rank / inner[axis] % of->mesh.sizes[axis] == 0;
    }
    if (!first) continue;
    for (int64_t part = 0; part < parts; part++) {
      int64_t left = part, at = rank;
      for (uint32_t i = of->counts[dimension]; i-- > 0;) {
        uint32_t axis = of->axes[dimension][i];
        at += left % of->mesh.sizes[axis] * inner[axis];
        left /= of->mesh.sizes[axis];
      }
      ranks[set * parts + part] = at;
    }
    set++;
  }
}

static keel_status sharding_gather(hlo *h, const splits *of,
                                   keel_value *value) {
  int64_t members = 0;
  KEEL_TRY(members_of(h, &of->mesh, &members));
  int64_t *ranks = malloc((size_t)members * sizeof *ranks);
  if (!ranks) return keel_no_memory((size_t)members * sizeof *ranks);
  for (uint32_t i = 0; i < of->rank; i++) {
    if (!of->counts[i]) continue;
    list_ranks(of, i, members, ranks);
    *value = hlo_gather_parts(h, *value, of->rank, i, parts_of(of, i),
                              (uint32_t)members, ranks);
  }
  free(ranks);
  return KD_OK;
}

/* The number of this device's part of a dimension. */
static keel_value part_number(hlo *h, const splits *of, uint32_t dimension) {
  keel_value rank = HLO(h, "keel::Rank", hlo_member(h));
  keel_value number = KEEL_ABSENT;
  for (uint32_t i = 0; i < of->counts[dimension]; i++) {
    uint32_t axis = of->axes[dimension][i];
    int64_t size = of->mesh.sizes[axis], inner = 1;
    for (uint32_t k = axis + 1; k < of->mesh.count; k++)
      inner *= of->mesh.sizes[k];
    keel_value at =
        HLO(h, "Mod", HLO(h, "Div", rank, hlo_i64(h, inner)), hlo_i64(h, size));
    number =
        i ? HLO(h, "Add", HLO(h, "Mul", number, hlo_i64(h, size)), at) : at;
  }
  return number;
}

static keel_status take_part(hlo *h, const bytecode_op *op, const splits *of,
                             keel_value *value) {
  const keel_type *type = hlo_known(h, *value);
  if (!type || type->rank != of->rank)
    return vhlo_fail(&h->v, op, KD_UNIMPLEMENTED,
                     ": a value of unknown sizes is split among devices");
  if (type->rank == KD_MAX_RANK)
    return vhlo_fail(&h->v, op, KD_UNIMPLEMENTED,
                     ": a value of rank %u is split among devices",
                     (unsigned)type->rank);
  for (uint32_t i = 0; i < of->rank; i++) {
    if (!of->counts[i]) continue;
    int64_t dims[KD_MAX_RANK], parts = parts_of(of, i);
    uint32_t rank = of->rank + 1;
    type = hlo_known(h, *value);
    if (!type || type->dims[i] < 0 || type->dims[i] % parts)
      return vhlo_fail(
          &h->v, op, KD_UNIMPLEMENTED,
          ": dimension %u of a value does not divide evenly into %lld shards",
          (unsigned)i, (long long)parts);
    for (uint32_t k = 0; k < rank; k++)
      dims[k] = k < i        ? type->dims[k]
                : k == i     ? parts
                : k == i + 1 ? type->dims[i] / parts
                             : type->dims[k - 1];
    *value = hlo_gather(h, hlo_reshape(h, *value, rank, dims),
                        part_number(h, of, i), i);
  }
  return KD_OK;
}

static keel_status convert(hlo *h, const bytecode_op *op, uint32_t from,
                           uint32_t to, keel_value *value) {
  splits read;
  if (from) {
    KEEL_TRY(read_sharding(h, from - 1, &read));
    KEEL_TRY(sharding_gather(h, &read, value));
  }
  if (to) {
    KEEL_TRY(read_sharding(h, to - 1, &read));
    KEEL_TRY(take_part(h, op, &read, value));
  }
  return KD_OK;
}

keel_status hlo_split_as(hlo *h, const bytecode_op *op, const hlo_bound *bound,
                         uint32_t sharding, hlo_bound *out_bound) {
  hlo_bound made = *bound;
  if (bound->sharding != sharding) {
    made.value = hlo_here(h, bound->value, bound->level);
    KEEL_TRY(convert(h, op, bound->sharding, sharding, &made.value));
    if (bound->imaginary != KEEL_ABSENT) {
      made.imaginary = hlo_here(h, bound->imaginary, bound->level);
      KEEL_TRY(convert(h, op, bound->sharding, sharding, &made.imaginary));
    }
    made.level = h->level;
    made.sharding = sharding;
    made.maker = NULL;
  }
  *out_bound = made;
  return KD_OK;
}

/* ---- bodies -------------------------------------------------------------------------------- */

/* The axes that a body's devices are numbered by. */
typedef struct manual {
  const char *names[AXES_MOST];
  uint32_t count;
} manual;

static keel_status read_manual(const hlo *h, const bytecode_op *op,
                               manual *out) {
  uint32_t attribute = 0;
  bytecode_cursor c;
  KEEL_TRY(sharding_find(h, op, 1, "manual_axes", &attribute));
  KEEL_TRY(open_as(h, attribute, "sdy", MANUAL_AXES, &c));
  KEEL_TRY(bytecode_count(&c, 1, "axes", &out->count));
  if (out->count > AXES_MOST)
    return vhlo_fail(&h->v, op, KD_UNIMPLEMENTED,
                     " is not supported: it has %u axes, and Keel takes up to"
                     " %d",
                     (unsigned)out->count, AXES_MOST);
  for (uint32_t i = 0; i < out->count; i++) {
    KEEL_TRY(read_attribute(h, &c, &attribute));
    KEEL_TRY(string_of(h, attribute, &out->names[i]));
  }
  return KD_OK;
}

/* All axes of more than one device are the body's own. */
static keel_status check_manual(const hlo *h, const bytecode_op *op,
                                const manual *axes, uint32_t attribute) {
  splits of;
  KEEL_TRY(read_sharding(h, attribute, &of));
  for (uint32_t k = 0; k < of.mesh.count; k++) {
    bool found = of.mesh.sizes[k] == 1;
    for (uint32_t i = 0; i < axes->count && !found; i++)
      found = !strcmp(axes->names[i], of.mesh.names[k]);
    if (!found)
      return vhlo_fail(&h->v, op, KD_UNIMPLEMENTED,
                       " is not supported: it leaves axis \"%s\" of the mesh"
                       " to the compiler; name all axes in shard_map's"
                       " axis_names",
                       of.mesh.names[k]);
  }
  return KD_OK;
}

/* The shardings of an op's operands or results. */
static keel_status read_per_value(const hlo *h, const bytecode_op *op,
                                  uint32_t index, const char *name,
                                  uint32_t count, uint32_t *shardings) {
  bytecode_cursor c;
  uint32_t attribute = 0, have = 0;
  manual axes = {.count = 0};
  KEEL_TRY(read_manual(h, op, &axes));
  KEEL_TRY(sharding_find(h, op, index, name, &attribute));
  KEEL_TRY(open_as(h, attribute, "sdy", PER_VALUE, &c));
  KEEL_TRY(bytecode_count(&c, 1, "shardings", &have));
  if (have != count)
    return vhlo_fail(&h->v, op, KD_DATA_LOSS,
                     " has shardings for %u values, and has %u values",
                     (unsigned)have, (unsigned)count);
  for (uint32_t i = 0; i < count; i++) {
    KEEL_TRY(read_attribute(h, &c, &attribute));
    KEEL_TRY(check_manual(h, op, &axes, attribute));
    KEEL_TRY(hlo_sharding(h, attribute, &shardings[i]));
  }
  return KD_OK;
}

/* Whether something has given a value, here or further out. */
static keel_status check_given(const hlo *h, const bytecode_op *op,
                               const hlo_bound *bound) {
  return bound->value != KEEL_ABSENT && bound->level <= h->level
             ? KD_OK
             : vhlo_fail(&h->v, op, KD_DATA_LOSS,
                         " uses a value that is not defined");
}

static keel_status run_body(hlo *h, const bytecode_op *raw,
                            const uint32_t *shardings) {
  const bytecode_block *body = &raw->regions[0];
  const bytecode_op *end = NULL;
  for (uint32_t i = 0; i < raw->operand_count; i++) {
    hlo_bound *to = &h->bound[body->first_argument + i];
    const hlo_bound *from = &h->bound[raw->operands[i]];
    KEEL_TRY(check_given(h, raw, from));
    KEEL_TRY(hlo_split_as(h, raw, from, shardings[i], to));
    to->sharding = 0; /* for the body its part is all there is */
  }
  KEEL_TRY(hlo_ops(h, body, &end));
  if (end->operand_count != raw->result_count)
    return vhlo_fail(&h->v, end, KD_DATA_LOSS,
                     " has %u operands, and %u are needed",
                     (unsigned)end->operand_count, (unsigned)raw->result_count);
  for (uint32_t i = 0; i < raw->result_count; i++) {
    hlo_bound *to = &h->bound[raw->first_result + i];
    *to = h->bound[end->operands[i]];
    KEEL_TRY(check_given(h, end, to));
    if (to->sharding) /* of a body within the body */
      return vhlo_fail(&h->v, end, KD_UNIMPLEMENTED,
                       " is not supported: it returns a shard of a shard");
    to->sharding = shardings[raw->operand_count + i];
    to->maker = NULL;
  }
  return KD_OK;
}

keel_status hlo_manual(hlo *h, const bytecode_op *raw) {
  uint32_t n = raw->operand_count, m = raw->result_count;
  if (raw->region_count != 1 || raw->regions[0].argument_count != n)
    return vhlo_fail(&h->v, raw, KD_DATA_LOSS,
                     " has no body of as many arguments as operands");
  uint32_t *shardings = calloc((size_t)n + m + 1, sizeof *shardings);
  if (!shardings) return keel_no_memory((n + m) * sizeof *shardings);
  keel_status status = read_per_value(h, raw, 0, "in_shardings", n, shardings);
  if (status == KD_OK)
    status = read_per_value(h, raw, 2, "out_shardings", m, shardings + n);
  if (status == KD_OK) status = run_body(h, raw, shardings);
  free(shardings);
  return status;
}
