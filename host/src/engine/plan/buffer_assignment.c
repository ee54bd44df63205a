/* buffer_assignment.c - buffer assignment: places blocks largest first, each at the
 * lowest offset that overlaps no conflicting block ("greedy by size": Pisarchyk and Lee,
 * MLSys 2020). */
#include "plan/buffer_assignment.h"

#include "plan/plan.h"

/* The least saving in bytes, and at least a tenth, for which the plan's order is
 * enforced. */
#define ORDER_WORTH (UINT64_C(1) << 20)

/* ---- order of steps -------------------------------------------------------------- */

static uint64_t *before_of(const keel_buffer_assignment *assignment,
                           uint32_t step) {
  return assignment->before + (size_t)step * assignment->words;
}

static bool comes_before(const keel_buffer_assignment *assignment,
                         uint32_t first, uint32_t second) {
  return before_of(assignment, second)[first / 64] >> first % 64 & 1;
}

/* Makes `step` a successor of `other` and of all its predecessors. */
static void put_behind(keel_buffer_assignment *assignment, uint32_t other,
                       uint32_t step) {
  uint64_t *to = before_of(assignment, step);
  const uint64_t *from = before_of(assignment, other);
  for (uint32_t w = 0; w < assignment->words; w++)
    to[w] |= from[w];
  to[other / 64] |= UINT64_C(1) << other % 64;
}

/* Makes a step a successor of the makers of its inputs. */
static void order_step(keel_buffer_assignment *assignment, uint32_t index) {
  const keel_step *step = &assignment->executable->steps[index];
  for (uint32_t k = 0; k < step->input_count; k++)
    if (step->inputs[k] != KEEL_ABSENT &&
        assignment->maker[step->inputs[k]] != KEEL_ABSENT &&
        !comes_before(assignment, assignment->maker[step->inputs[k]], index))
      put_behind(assignment, assignment->maker[step->inputs[k]], index);
}

/* Twice: to count, then to fill. */
static void list_readers(keel_buffer_assignment *assignment) {
  const keel_executable *executable = assignment->executable;
  uint32_t *first = assignment->first_reader;
  for (int fill = 0; fill < 2; fill++) {
    for (uint32_t i = 0; i < executable->step_count; i++)
      for (uint32_t k = 0; k < executable->steps[i].input_count; k++) {
        uint32_t value = executable->steps[i].inputs[k];
        if (value == KEEL_ABSENT) continue;
        if (fill)
          assignment->readers[first[assignment->base[value] + 1]++] = i;
        else
          first[assignment->base[value] + 2]++;
      }
    for (uint32_t v = 0; v < executable->value_count && !fill; v++)
      first[v + 2] += first[v + 1];
  }
}

static void list_makers(keel_buffer_assignment *assignment) {
  const keel_executable *executable = assignment->executable;
  for (uint32_t i = 0; i < executable->step_count; i++)
    for (uint32_t k = 0; k < executable->steps[i].output_count; k++)
      if (executable->steps[i].outputs[k] != KEEL_ABSENT)
        assignment->maker[executable->steps[i].outputs[k]] = i;
}

keel_status keel_buffer_assignment_begin(keel_buffer_assignment *assignment,
                                         keel_executable *executable,
                                         const uint32_t *base) {
  size_t steps = executable->step_count, values = executable->value_count,
         reads = 0;
  for (uint32_t i = 0; i < executable->step_count; i++)
    reads += executable->steps[i].input_count;
  assignment->executable = executable;
  assignment->base = base;
  assignment->words = (uint32_t)(steps + 63) / 64;
  keel_arena *work = &assignment->work;
  KEEL_ARENA_ARRAY(work, assignment->before, steps * assignment->words);
  KEEL_ARENA_ARRAY(work, assignment->first_reader, values + 2);
  KEEL_ARENA_ARRAY(work, assignment->readers, reads);
  KEEL_ARENA_ARRAY(work, assignment->maker, values);
  KEEL_ARENA_ARRAY(work, assignment->block_of, values);
  KEEL_ARENA_ARRAY(work, assignment->value_under, values);
  if (work->failed) return KD_OUT_OF_MEMORY;
  for (size_t v = 0; v < values; v++)
    assignment->maker[v] = assignment->block_of[v] =
        assignment->value_under[v] = KEEL_ABSENT;
  list_makers(assignment);
  list_readers(assignment);
  for (uint32_t i = 0; i < executable->step_count; i++)
    order_step(assignment, i);
  return KD_OK;
}

/* ---- blocks ------------------------------------------------------------------------ */

/* Calls back for each step that uses a block; stops at the first false. */
static bool each_user(const keel_buffer_assignment *assignment,
                      const keel_block *block,
                      bool (*call)(const keel_buffer_assignment *assignment,
                                   uint32_t user, uint32_t step),
                      uint32_t step) {
  if (block->value == KEEL_ABSENT) return call(assignment, block->from, step);
  for (uint32_t value = block->value; value != KEEL_ABSENT;
       value = assignment->value_under[value]) {
    if (!call(assignment, assignment->maker[value], step)) return false;
    for (uint32_t i = assignment->first_reader[value];
         i < assignment->first_reader[value + 1]; i++)
      if (!call(assignment, assignment->readers[i], step)) return false;
  }
  return true;
}

static bool is_before(const keel_buffer_assignment *assignment, uint32_t user,
                      uint32_t step) {
  return comes_before(assignment, user, step);
}

static bool is_before_or_it(const keel_buffer_assignment *assignment,
                            uint32_t user, uint32_t step) {
  return user == step || comes_before(assignment, user, step);
}

/* The block of an input that only this step still reads, once; or KEEL_ABSENT. */
static uint32_t block_of_input(const keel_buffer_assignment *assignment,
                               uint32_t index, uint64_t bytes,
                               uint32_t inplace) {
  const keel_step *step = &assignment->executable->steps[index];
  for (uint32_t i = 0; i < step->input_count && i < 32; i++) {
    uint32_t reads = 0, value = step->inputs[i];
    if (!(inplace >> i & 1) || value == KEEL_ABSENT) continue;
    uint32_t base = assignment->base[value], block = assignment->block_of[base];
    for (uint32_t k = 0; k < step->input_count; k++)
      reads += step->inputs[k] != KEEL_ABSENT &&
               assignment->base[step->inputs[k]] == base;
    if (block != KEEL_ABSENT && reads == 1 &&
        assignment->blocks[block].value == base &&
        assignment->blocks[block].bytes == bytes &&
        each_user(assignment, &assignment->blocks[block], is_before_or_it,
                  index))
      return block;
  }
  return KEEL_ABSENT;
}

static void note_last(const keel_buffer_assignment *assignment,
                      keel_block *block, uint32_t value) {
  for (uint32_t i = assignment->first_reader[value];
       i < assignment->first_reader[value + 1]; i++)
    if (assignment->readers[i] > block->to) block->to = assignment->readers[i];
}

static keel_status add_block(keel_buffer_assignment *assignment, uint32_t step,
                             uint64_t bytes, uint32_t *out_block) {
  if (!KEEL_ROOM(assignment->blocks, assignment->count, assignment->capacity))
    return KD_OUT_OF_MEMORY;
  *out_block = assignment->count++;
  assignment->blocks[*out_block] = (keel_block){
      .bytes = bytes, .from = step, .to = step, .value = KEEL_ABSENT};
  return KD_OK;
}

/* Adds a value to the block that an input lies in. */
static void put_in(keel_buffer_assignment *assignment, uint32_t at,
                   uint32_t value) {
  keel_block *block = &assignment->blocks[at];
  assert(at < assignment->count);
  assignment->value_under[value] = block->value;
  assignment->block_of[value] = at;
  block->value = value;
  note_last(assignment, block, value);
}

keel_status keel_buffer_assignment_take(keel_buffer_assignment *assignment,
                                        uint32_t step, uint32_t value,
                                        uint64_t bytes, uint32_t inplace,
                                        uint32_t *out_block) {
  uint32_t at = block_of_input(assignment, step, bytes, inplace);
  if (at == KEEL_ABSENT) KEEL_TRY(add_block(assignment, step, bytes, &at));
  assignment->unshared += bytes;
  *out_block = at;
  if (value != KEEL_ABSENT) put_in(assignment, at, value);
  return KD_OK;
}

keel_status keel_buffer_assignment_take_concat(
    keel_buffer_assignment *assignment, uint32_t step, uint32_t root,
    const uint32_t *root_of, uint64_t bytes, uint32_t *out_block) {
  KEEL_TRY(add_block(assignment, step, bytes, out_block));
  assignment->unshared += bytes;
  assignment->blocks[*out_block].joined = true;
  for (uint32_t v = 0; v < assignment->executable->value_count; v++)
    if (root_of[v] == root && v != root) put_in(assignment, *out_block, v);
  put_in(assignment, *out_block, root);
  return KD_OK;
}

/* ---- where they lie ------------------------------------------------------------------ */

/* Whether two blocks must not share memory. */
typedef bool conflict(const keel_buffer_assignment *assignment,
                      const keel_block *a, const keel_block *b);

static bool in_plans_order(const keel_buffer_assignment *assignment,
                           const keel_block *a, const keel_block *b) {
  (void)assignment;
  return a->from <= b->to && b->from <= a->to;
}

static bool in_any_order(const keel_buffer_assignment *assignment,
                         const keel_block *a, const keel_block *b) {
  if (in_plans_order(assignment, a, b)) return true;
  const keel_block *first = a->from < b->from ? a : b,
                   *second = first == a ? b : a;
  if (!second->joined)
    return !each_user(assignment, first, is_before, second->from);
  for (uint32_t value = second->value; value != KEEL_ABSENT;
       value = assignment->value_under[value])
    if (!each_user(assignment, first, is_before, assignment->maker[value]))
      return true;
  return false;
}

typedef struct sized {
  uint64_t bytes;
  uint32_t block;
} sized;

typedef struct packing {
  sized *by_size;    /* blocks, the largest first */
  uint32_t *near;    /* the blocks that one conflicts with, by offset */
  uint64_t *offsets; /* by block */
} packing;

static int larger_first(const void *a, const void *b) {
  const sized *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return (x->block > y->block) - (x->block < y->block);
}

static uint64_t aligned(uint64_t size, uint64_t alignment) {
  if (!size) size = 1; /* an empty block has an address, too */
  return (size + alignment - 1) / alignment * alignment;
}

/* The lowest offset that overlaps none of the conflicting blocks. */
static uint64_t lowest(const keel_buffer_assignment *assignment,
                       const packing *p, uint32_t count, uint64_t size,
                       uint64_t alignment) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t begin = p->offsets[p->near[i]];
    if (at + size <= begin) break;
    uint64_t end =
        begin + aligned(assignment->blocks[p->near[i]].bytes, alignment);
    if (end > at) at = end;
  }
  return at;
}

/* Assigns offsets. Returns the total size. */
static uint64_t buffer_assignment_pack(const keel_buffer_assignment *assignment,
                                       const packing *p, conflict *conflicts,
                                       uint64_t alignment) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < assignment->count; i++) {
    uint32_t block = p->by_size[i].block, count = 0;
    const keel_block *at = &assignment->blocks[block];
    for (uint32_t k = 0; k < i; k++) {
      uint32_t other = p->by_size[k].block, to = count;
      if (!conflicts(assignment, at, &assignment->blocks[other])) continue;
      for (; to && p->offsets[p->near[to - 1]] > p->offsets[other]; to--)
        p->near[to] = p->near[to - 1];
      p->near[to] = other;
      count++;
    }
    uint64_t size = aligned(at->bytes, alignment);
    p->offsets[block] = lowest(assignment, p, count, size, alignment);
    if (p->offsets[block] + size > total) total = p->offsets[block] + size;
  }
  return total;
}

/* The peak of the live bytes over the steps. */
static keel_status find_least(keel_buffer_assignment *assignment) {
  uint32_t steps = assignment->executable->step_count;
  int64_t *change = calloc((size_t)steps + 2, sizeof *change), now = 0;
  if (!change) return keel_no_memory(steps * sizeof *change);
  for (uint32_t i = 0; i < assignment->count; i++) {
    change[assignment->blocks[i].from] += (int64_t)assignment->blocks[i].bytes;
    change[assignment->blocks[i].to + 1] -=
        (int64_t)assignment->blocks[i].bytes;
  }
  for (uint32_t i = 0; i < steps; i++) {
    now += change[i];
    if ((uint64_t)now > assignment->least) assignment->least = (uint64_t)now;
  }
  free(change);
  return KD_OK;
}

/* ---- edges that the plan's order takes ------------------------------------------------- */

static bool add_edge(keel_buffer_assignment *assignment, uint32_t from,
                     uint32_t to) {
  if (!KEEL_ROOM(assignment->edges, assignment->edge_count,
                 assignment->edge_capacity))
    return false;
  assignment->edges[assignment->edge_count++] = (keel_edge){from, to};
  put_behind(assignment, from, to);
  return true;
}

/* Orders `step`, which reuses a dead block, after that block's users. */
static bool buffer_assignment_wait_for(keel_buffer_assignment *assignment,
                                       const keel_block *other, uint32_t step) {
  if (other->value == KEEL_ABSENT)
    return comes_before(assignment, other->from, step) ||
           add_edge(assignment, other->from, step);
  for (uint32_t value = other->value; value != KEEL_ABSENT;
       value = assignment->value_under[value]) {
    for (uint32_t i = assignment->first_reader[value];
         i < assignment->first_reader[value + 1]; i++)
      if (!comes_before(assignment, assignment->readers[i], step) &&
          !add_edge(assignment, assignment->readers[i], step))
        return false;
    if (!comes_before(assignment, assignment->maker[value], step) &&
        !add_edge(assignment, assignment->maker[value], step))
      return false;
  }
  return true;
}

/* Does so for every step that writes into a block. */
static bool all_wait_for(keel_buffer_assignment *assignment,
                         const keel_block *other, const keel_block *block) {
  if (!block->joined)
    return buffer_assignment_wait_for(assignment, other, block->from);
  for (uint32_t value = block->value; value != KEEL_ABSENT;
       value = assignment->value_under[value])
    if (!buffer_assignment_wait_for(assignment, other,
                                    assignment->maker[value]))
      return false;
  return true;
}

/* Blocks are in the order of their first writers. */
static keel_status keep_order(keel_buffer_assignment *assignment) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < assignment->executable->step_count; i++) {
    /* after the new predecessors of its predecessors, too */
    for (uint32_t k = 0; k < assignment->executable->steps[i].input_count;
         k++) {
      uint32_t value = assignment->executable->steps[i].inputs[k];
      if (value != KEEL_ABSENT && assignment->maker[value] != KEEL_ABSENT)
        put_behind(assignment, assignment->maker[value], i);
    }
    for (; next < assignment->count && assignment->blocks[next].from == i;
         next++) {
      const keel_block *at = &assignment->blocks[next];
      for (uint32_t k = next; k-- > 0;) {
        const keel_block *other = &assignment->blocks[k];
        bool overlap = other->offset < at->offset + at->bytes &&
                       at->offset < other->offset + other->bytes;
        if (overlap && other->to < i && !all_wait_for(assignment, other, at))
          return KD_OUT_OF_MEMORY;
      }
    }
  }
  return KD_OK;
}

static void set_offsets(keel_buffer_assignment *assignment, const packing *p,
                        uint64_t total) {
  for (uint32_t i = 0; i < assignment->count; i++) {
    assert(p->offsets[i] <= total &&
           assignment->blocks[i].bytes <= total - p->offsets[i]);
    assignment->blocks[i].offset = p->offsets[i];
  }
  assignment->total = total;
}

/* Assigns for any order of steps, unless the plan's order takes much less memory. */
static keel_status buffer_assignment_choose(keel_buffer_assignment *assignment,
                                            const packing *p,
                                            uint64_t alignment, bool ordered) {
  if (ordered) {
    set_offsets(
        assignment, p,
        buffer_assignment_pack(assignment, p, in_plans_order, alignment));
    return KD_OK;
  }
  uint64_t any = buffer_assignment_pack(assignment, p, in_any_order, alignment);
  set_offsets(assignment, p, any);
  if (any < assignment->least + ORDER_WORTH ||
      any / 11 <= assignment->least / 10)
    return KD_OK;
  uint64_t kept =
      buffer_assignment_pack(assignment, p, in_plans_order, alignment);
  if (any < kept + ORDER_WORTH) return KD_OK;
  set_offsets(assignment, p, kept);
  return keep_order(assignment);
}

static keel_status lay(keel_buffer_assignment *assignment, uint64_t alignment,
                       bool ordered) {
  size_t n = assignment->count;
  packing p = {malloc((n + 1) * sizeof *p.by_size),
               malloc((n + 1) * sizeof *p.near),
               malloc((n + 1) * sizeof *p.offsets)};
  keel_status status = KD_OK;
  if (p.by_size && p.near && p.offsets) {
    for (uint32_t i = 0; i < assignment->count; i++)
      p.by_size[i] = (sized){assignment->blocks[i].bytes, i};
    qsort(p.by_size, n, sizeof *p.by_size, larger_first);
    status = buffer_assignment_choose(assignment, &p, alignment, ordered);
  } else {
    status = keel_no_memory(n * sizeof *p.offsets);
  }
  free(p.by_size);
  free(p.near);
  free(p.offsets);
  return status;
}

keel_status keel_buffer_assignment_end(keel_buffer_assignment *assignment,
                                       uint64_t alignment, bool ordered) {
  keel_status status = assignment->executable ? find_least(assignment) : KD_OK;
  if (status == KD_OK && assignment->executable)
    status = lay(assignment, alignment, ordered);
  keel_arena_free(&assignment->work);
  assignment->before = NULL;
  assignment->first_reader = assignment->readers = assignment->maker = NULL;
  assignment->block_of = assignment->value_under = NULL;
  assignment->base = NULL;
  return status;
}

void keel_buffer_assignment_free(keel_buffer_assignment *assignment) {
  free(assignment->blocks);
  free(assignment->edges);
}
