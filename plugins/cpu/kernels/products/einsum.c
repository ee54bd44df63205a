/* einsum.c - Einsum (opset 12): "bij,bjk->bik", with an ellipsis.
 *
 * Two operands of f32 or f64 become a batch of matrix products, if each label is of one kind:
 *
 *     batch     in A, B and Y        b       A  batch, rows, summed
 *     rows      in A and Y           i       B  batch, summed, columns
 *     columns   in B and Y           k       Y  batch, rows, columns
 *     summed    in A and B           j
 *
 * Operands whose labels stand otherwise are copied into that order, and the result back from
 * it. Threads share the batch, or each product where the batch is small (gemm.c).
 *
 * All other equations are summed element by element, floats in double, integers modulo 2^64;
 * threads share the results. */
#include <ctype.h>

#include "kernels.h"

#define LABELS 40 /* letters, and the dots' dimensions */
#define TERMS  16

typedef struct term {
  uint32_t rank;
  int label[KD_MAX_RANK];
} term;

typedef struct equation {
  int names[LABELS]; /* a letter, or 256 + place from the right of the dots */
  int64_t size[LABELS];
  int count;
  term in[TERMS], out;
} equation;

/* ---- reading: the shape function has checked the equation ----------------------- */

static int label_of(equation *e, int name) {
  for (int i = 0; i < e->count; i++)
    if (e->names[i] == name) return i;
  if (e->count == LABELS) return -1;
  e->names[e->count] = name;
  e->size[e->count] = 1;
  return e->count++;
}

static bool einsum_add(equation *e, term *t, int name) {
  int label = label_of(e, name);
  if (label < 0 || t->rank == KD_MAX_RANK) return false;
  t->label[t->rank++] = label;
  return true;
}

static bool read_term(equation *e, const char *text, size_t size, uint32_t dots,
                      term *out) {
  for (size_t i = 0; i < size; i++) {
    if (isalpha((unsigned char)text[i])) {
      if (!einsum_add(e, out, text[i])) return false;
    } else if (text[i] == '.') {
      for (uint32_t d = dots; d-- > 0;)
        if (!einsum_add(e, out, 256 + (int)d)) return false;
      i += 2;
    }
  }
  return true;
}

static bool read_input(equation *e, const char *text, size_t size,
                       const kd_tensor *in, term *out, uint32_t *dots) {
  uint32_t letters = 0;
  for (size_t i = 0; i < size; i++)
    letters += isalpha((unsigned char)text[i]) != 0;
  if (letters > in->rank) return false;
  uint32_t here = memchr(text, '.', size) ? in->rank - letters : 0;
  if (here > *dots) *dots = here;
  if (!read_term(e, text, size, here, out) || out->rank != in->rank)
    return false;
  for (uint32_t d = 0; d < in->rank; d++)
    if (in->dims[d] != 1) e->size[out->label[d]] = in->dims[d];
  return true;
}

static bool read_equation(const kd_launch *launch, equation *e) {
  const char *text = attr_string(launch, "equation", "");
  const char *arrow = strstr(text, "->");
  const char *end = arrow ? arrow : text + strlen(text), *at = text;
  uint32_t dots = 0, met[LABELS] = {0};
  if (launch->input_count > TERMS) return false;
  for (uint32_t i = 0; i < launch->input_count; i++) {
    size_t size = 0;
    while (at + size < end && at[size] != ',')
      size++;
    if (!read_input(e, at, size, &launch->inputs[i], &e->in[i], &dots))
      return false;
    for (uint32_t d = 0; d < e->in[i].rank; d++)
      met[e->in[i].label[d]]++;
    at += size + 1;
  }
  if (arrow) return read_term(e, arrow + 2, strlen(arrow + 2), dots, &e->out);
  if (!read_term(e, "...", 3, dots, &e->out)) return false;
  for (int letter = 0; letter < 128; letter++)
    for (int i = 0, known = e->count; i < known; i++)
      if (e->names[i] == letter && met[i] == 1 &&
          !einsum_add(e, &e->out, letter))
        return false;
  return true;
}

/* How far a step of each label moves in a tensor: 0 where it is broadcast. */
static void steps_of(const equation *e, const term *t, const int64_t *dims,
                     int64_t *steps) {
  int64_t packed[KD_MAX_RANK];
  strided_packed(dims, t->rank, packed);
  for (int i = 0; i < e->count; i++)
    steps[i] = 0;
  for (uint32_t d = 0; d < t->rank; d++)
    if (dims[d] != 1) steps[t->label[d]] += packed[d]; /* "ii": a diagonal */
}

/* ---- as matrix products ------------------------------------------------------------- */

typedef struct split {
  int labels[4][LABELS]; /* batch, rows, columns, summed */
  int counts[4];
  int64_t sizes[4];
} split;

enum { BATCH, ROWS, COLUMNS, SUMMED };

static bool has_label(const term *t, int label, bool *out_twice) {
  int times = 0;
  for (uint32_t d = 0; d < t->rank; d++)
    times += t->label[d] == label;
  *out_twice |= times > 1;
  return times > 0;
}

static bool split_labels(const kd_launch *launch, const equation *e,
                         split *out) {
  kd_dtype dtype = launch->inputs[0].dtype;
  bool odd = launch->input_count != 2 || (dtype != KD_F32 && dtype != KD_F64);
  if (odd) return false;
  memset(out, 0, sizeof *out);
  for (int i = 0; i < 4; i++)
    out->sizes[i] = 1;
  for (int i = 0; i < e->count; i++) {
    bool a = has_label(&e->in[0], i, &odd), b = has_label(&e->in[1], i, &odd);
    bool result = has_label(&e->out, i, &odd);
    int where = a && b ? (result ? BATCH : SUMMED) : a ? ROWS : COLUMNS;
    if (odd || (!result && where != SUMMED)) return false;
    out->labels[where][out->counts[where]++] = i;
    out->sizes[where] *= e->size[i];
  }
  for (uint32_t k = 0; k < 2; k++) /* nothing is broadcast */
    for (uint32_t d = 0; d < e->in[k].rank; d++)
      if (launch->inputs[k].dims[d] != e->size[e->in[k].label[d]]) return false;
  return true;
}

/* The walk between a tensor and its packed form, whose labels stand in three groups. */
typedef struct walk {
  uint32_t rank;
  int64_t dims[STRIDED_RANK], packed[STRIDED_RANK], tensor[STRIDED_RANK];
} walk;

static walk walk_of(const equation *e, const split *s, const int *groups,
                    const term *t, const int64_t *dims) {
  int64_t steps[LABELS];
  walk w = {0};
  steps_of(e, t, dims, steps);
  for (int g = 0; g < 3; g++)
    for (int i = 0; i < s->counts[groups[g]]; i++) {
      int label = s->labels[groups[g]][i];
      w.dims[w.rank] = e->size[label];
      w.tensor[w.rank++] = steps[label];
    }
  strided_packed(w.dims, w.rank, w.packed);
  return w;
}

static bool einsum_is_packed(const walk *w) {
  for (uint32_t d = 0; d < w->rank; d++)
    if (w->dims[d] != 1 && w->tensor[d] != w->packed[d]) return false;
  return true;
}

static void repack(const walk *w, size_t size, void *packed, void *tensor,
                   bool to_tensor) {
  strided space;
  strided_begin(&space, w->dims, w->rank);
  strided_operand(&space, to_tensor ? w->tensor : w->packed);
  strided_operand(&space, to_tensor ? w->packed : w->tensor);
  cpu_copy_strided(&space, size, to_tensor ? tensor : packed,
                   to_tensor ? packed : tensor);
}

typedef struct products {
  cpu_gemm gemm;    /* the first */
  int64_t steps[3]; /* bytes from one matrix to the next: A, B, Y */
  bool alone;       /* each on one thread */
} products;

static void run_products(void *context, int64_t begin, int64_t end) {
  const products *all = context;
  for (int64_t i = begin; i < end; i++) {
    cpu_gemm gemm = all->gemm;
    gemm.a = (const char *)gemm.a + i * all->steps[0];
    gemm.b = (const char *)gemm.b + i * all->steps[1];
    gemm.c = (char *)gemm.c + i * all->steps[2];
    if (all->alone)
      cpu_gemm_here(&gemm);
    else
      cpu_gemm_run(&gemm);
  }
}

static void einsum_multiply(const split *s, kd_dtype dtype, void *const *data) {
  int64_t m = s->sizes[ROWS], n = s->sizes[COLUMNS], k = s->sizes[SUMMED];
  int64_t size = (int64_t)kd_dtype_size(dtype), batch = s->sizes[BATCH];
  products all = {.steps = {m * k * size, k * n * size, m * n * size},
                  .gemm = {.dtype = dtype,
                           .m = m,
                           .n = n,
                           .k = k,
                           .vector = m == 1 || n == 1,
                           .alpha = 1,
                           .a = data[0],
                           .b = data[1],
                           .c = data[2],
                           .lda = k > 0 ? k : 1,
                           .ldb = n > 0 ? n : 1,
                           .ldc = n > 0 ? n : 1}};
  all.alone = batch >= (int64_t)cpu_host->worker_count(cpu_host);
  if (all.alone)
    cpu_host->parallel_for(cpu_host, batch,
                           CPU_GRAIN / (m * n * (k + 1) + 1) + 1, run_products,
                           &all);
  else
    run_products(&all, 0, batch);
}

static kd_status by_products(const kd_launch *launch, const equation *e,
                             const split *s) {
  static const int groups[3][3] = {
      {BATCH, ROWS, SUMMED}, {BATCH, SUMMED, COLUMNS}, {BATCH, ROWS, COLUMNS}};
  const kd_tensor *tensors[] = {&launch->inputs[0], &launch->inputs[1],
                                &launch->outputs[0]};
  const term *terms[] = {&e->in[0], &e->in[1], &e->out};
  size_t size = kd_dtype_size(tensors[2]->dtype);
  void *data[3], *owned[3] = {NULL, NULL, NULL};
  walk walks[3];
  bool room = true;
  for (int i = 0; i < 3 && room; i++) {
    walks[i] = walk_of(e, s, groups[i], terms[i], tensors[i]->dims);
    data[i] = tensors[i]->data;
    if (einsum_is_packed(&walks[i])) continue;
    uint64_t bytes = (uint64_t)kd_elements(tensors[i]) * size;
    data[i] = owned[i] = cpu_host->allocate(cpu_host, bytes + 1, 0);
    room = owned[i] != NULL;
    if (room && i < 2)
      repack(&walks[i], size, data[i], tensors[i]->data, false);
  }
  if (room) einsum_multiply(s, tensors[2]->dtype, data);
  if (room && owned[2])
    repack(&walks[2], size, data[2], tensors[2]->data, true);
  for (int i = 0; i < 3; i++)
    if (owned[i]) cpu_host->release(cpu_host, owned[i]);
  return room ? KD_OK : FAIL(KD_OUT_OF_MEMORY, "no memory to pack operands");
}

/* ---- element by element ----------------------------------------------------------------- */

typedef struct sums {
  const kd_launch *launch;
  const equation *e;
  int64_t steps[TERMS][LABELS];
  int summed[LABELS], summed_count;
} sums;

static uint64_t word_at(const kd_tensor *tensor, int64_t i) {
  uint64_t word = 0;
  size_t size = kd_dtype_size(tensor->dtype);
  memcpy(&word, (const char *)tensor->data + (size_t)i * size, size);
  return word; /* the low bits of a product are those of the words */
}

/* One result: over all places of the summed labels. */
static void sum_one(const sums *work, int64_t *place, int64_t result) {
  const kd_launch *launch = work->launch;
  const kd_tensor *y = &launch->outputs[0];
  bool real = (KD_TYPES_FLOAT & KD_TYPES(y->dtype)) != 0;
  double total = 0;
  uint64_t bits = 0;
  for (int i = 0; i < work->summed_count; i++) {
    place[work->summed[i]] = 0;
    if (!work->e->size[work->summed[i]]) goto done;
  }
  for (;;) {
    double product = 1;
    uint64_t word = 1;
    for (uint32_t k = 0; k < launch->input_count; k++) {
      int64_t from = 0;
      for (int i = 0; i < work->e->count; i++)
        from += place[i] * work->steps[k][i];
      if (real)
        product *=
            cpu_get(launch->inputs[k].data, launch->inputs[k].dtype, from);
      else
        word *= word_at(&launch->inputs[k], from);
    }
    total += product;
    bits += word;
    int i = work->summed_count - 1;
    for (; i >= 0; i--) {
      int label = work->summed[i];
      if (++place[label] < work->e->size[label]) break;
      place[label] = 0;
    }
    if (i < 0) break;
  }
done:
  if (real)
    cpu_set(y->data, y->dtype, result, total);
  else
    memcpy((char *)y->data + (size_t)result * kd_dtype_size(y->dtype), &bits,
           kd_dtype_size(y->dtype));
}

static void sum_piece(void *context, int64_t begin, int64_t end) {
  const sums *work = context;
  const kd_tensor *y = &work->launch->outputs[0];
  for (int64_t i = begin; i < end; i++) {
    int64_t place[LABELS] = {0}, rest = i;
    for (uint32_t d = y->rank; d-- > 0; rest /= y->dims[d])
      place[work->e->out.label[d]] = rest % y->dims[d];
    sum_one(work, place, i);
  }
}

CPU_KERNEL(cpu_run_einsum) {
  const kd_tensor *y = &launch->outputs[0];
  equation e = {0};
  split s;
  if (!read_equation(launch, &e) || e.out.rank != y->rank)
    return FAIL(KD_UNIMPLEMENTED, "\"%s\" has too many labels or operands",
                attr_string(launch, "equation", ""));
  if (!kd_elements(y)) return KD_OK;
  if (split_labels(launch, &e, &s)) return by_products(launch, &e, &s);
  sums work = {.launch = launch, .e = &e};
  int64_t each = 1;
  for (uint32_t k = 0; k < launch->input_count; k++)
    steps_of(&e, &e.in[k], launch->inputs[k].dims, work.steps[k]);
  for (int i = 0; i < e.count; i++) {
    bool twice = false;
    if (has_label(&e.out, i, &twice)) continue;
    work.summed[work.summed_count++] = i;
    each *= e.size[i] ? e.size[i] : 1;
  }
  cpu_host->parallel_for(cpu_host, kd_elements(y), CPU_GRAIN / 4 / each + 1,
                         sum_piece, &work);
  return KD_OK;
}
