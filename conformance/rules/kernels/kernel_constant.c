/* kernel_constant.c - constants of the program: where their data lies, how long it lies
 * there, and what an instance keeps of it. */
#include <sys/mman.h>

#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

/* Pages that constants lie in, each constant at the beginning of one. */
#define ROOM (UINT64_C(1) << 20)
#define PAGE UINT64_C(4096)

static char *pages_make(void) {
  char *made = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED)
    kc_stop("the suite can't map %u bytes", (unsigned)ROOM);
  return made;
}

/* Has the node's constants lie there; false where there is no room. */
static bool kernel_constant_place(kc_node *node, char *pages) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < KC_PORTS; i++) {
    if (!node->constants[i]) continue;
    uint64_t size = node->in[i]->bytes;
    if (at + size > ROOM) return false;
    memcpy(pages + at, node->data[i], size);
    node->shells[i].data = pages + at;
    at += (size + PAGE - 1) / PAGE * PAGE + PAGE;
  }
  return at > 0;
}

/* A node whose constants lie in some pages, and an instance of it. */
typedef struct held {
  kc_op_case one;
  kc_node *node;
  kc_run *run;
} held;

static void kernel_constant_let_go(held *h) {
  kc_run_free(h->run);
  kc_node_free(h->node);
  kc_case_free(&h->one);
  *h = (held){0};
}

/* The node of a case with other values, which nobody has asked `supports` about. */
static bool hold_node(const kc_op_case *from, const kd_kernel_def *def,
                      uint32_t values, char *pages, held *out) {
  *out = (held){.one = kernel_other_values(from, def->host_inputs, values)};
  out->node = kc_node_make(&out->one.op, NULL, 0);
  if (out->node && kc_def_fits(def, out->node) &&
      kernel_constant_place(out->node, pages))
    return true;
  kernel_constant_let_go(out);
  return false;
}

static bool hold(const kc_op_case *from, const kd_kernel_def *def,
                 uint32_t values, char *pages, held *out) {
  if (!hold_node(from, def, values, pages, out)) return false;
  if (kc_def_for(out->node) != def) {
    kernel_constant_let_go(out);
    return false;
  }
  out->run = kc_run_of(out->node, def, &out->one.op, &kc_plain);
  return true;
}

static void run_held(held *h, const char *what) {
  kernel_run_and_compare(&h->one, h->node, h->run, what);
}

/* One instance after the other, with its constant where the last one's lay. */
static bool one_after_the_other(const kc_op_case *one, const kd_kernel_def *def,
                                char *pages) {
  static const uint32_t values[] = {0, KERNEL_TURNED | KERNEL_DOUBLED, 0,
                                    KERNEL_LAST};
  for (size_t i = 0; i < KC_COUNT_OF(values); i++) {
    held h;
    if (!hold(one, def, values[i], pages, &h)) return i > 0;
    run_held(&h, i ? "with a constant where that of an instance that is gone"
                     " lay, an output (are weights kept by their address?)"
                   : "with a constant, an output");
    kernel_constant_let_go(&h);
  }
  return true;
}

/* Instances that live at once; two of them with equal bytes. */
static void side_by_side(const kc_op_case *one, const kd_kernel_def *def,
                         char *const *pages) {
  held first, last, equal;
  bool made[3] = {hold(one, def, 0, pages[0], &first),
                  hold(one, def, KERNEL_LAST, pages[1], &last),
                  hold(one, def, 0, pages[2], &equal)};
  if (made[0])
    run_held(&first, "beside an instance with another constant, an output");
  if (made[1])
    run_held(&last,
             "beside an instance whose constant differs in the last"
             " element, an output (are weights kept by a hash of their"
             " beginning?)");
  if (made[0]) kernel_constant_let_go(&first);
  memset(pages[0], 0x3c, ROOM);
  if (made[2]) {
    run_held(&equal,
             "behind the end of an instance with an equal constant, an"
             " output (did its weights go with the other's?)");
    kernel_constant_let_go(&equal);
  }
  if (made[1]) {
    run_held(&last, "behind the end of other instances, an output");
    kernel_constant_let_go(&last);
  }
}

/* With all inputs but the first as constants, and with the first. What found the kernel is
 * gone when it is checked. */
static void each_constants(kc_op_case *one,
                           void (*check)(kc_op_case *, const kd_kernel_def *)) {
  static const uint32_t masks[] = {~1u, 1u};
  kc_check(true, " ");
  for (size_t i = 0; i < KC_COUNT_OF(masks) && one->op.in_count > 1; i++) {
    char *pages = pages_make();
    one->op.constants = masks[i];
    kc_node *node = kc_node_make(&one->op, NULL, 0);
    const kd_kernel_def *def =
        node && !node->dynamic && kernel_constant_place(node, pages)
            ? kc_def_for(node)
            : NULL;
    kc_node_free(node);
    mprotect(pages, ROOM, PROT_NONE);
    if (def) check(one, def);
    munmap(pages, ROOM);
  }
}

static void constant_inputs(kc_op_case *one, const kd_kernel_def *def) {
  char *pages[3] = {pages_make(), pages_make(), pages_make()};
  if (one_after_the_other(one, def, pages[0])) side_by_side(one, def, pages);
  for (int i = 0; i < 3; i++)
    munmap(pages[i], ROOM);
}

static void def_constant_inputs(kc_op_case *one, kc_node *node,
                                const kd_kernel_def *def) {
  (void)node;
  (void)def;
  each_constants(one, constant_inputs);
}

/* The same bytes as weights of two shapes. */
static void equal_bytes(void) {
  static const int64_t a[2][2] = {{5, 8}, {5, 12}},
                       b[2][2] = {{8, 12}, {12, 8}};
  held sides[2];
  char *pages[2] = {pages_make(), pages_make()};
  bool made[2] = {false, false};
  for (int i = 0; i < 2; i++) {
    kc_random random = {4};
    kc_op_case one = kc_case_floats("MatMul", 1, 2, a[i], &random);
    random = (kc_random){5};
    kc_case_add(&one, kc_floats(2, b[i], &random));
    one.op.constants = 2;
    kc_node *node = kc_node_make(&one.op, NULL, 0);
    const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
    made[i] = def && hold(&one, def, 0, pages[i], &sides[i]);
    kc_node_free(node);
    kc_case_free(&one);
  }
  for (int i = 0; i < 4; i++)
    if (made[i % 2])
      run_held(&sides[i % 2],
               "beside an instance whose constant has the same"
               " bytes in another shape, an output");
  for (int i = 0; i < 2; i++) {
    if (made[i]) kernel_constant_let_go(&sides[i]);
    munmap(pages[i], ROOM);
  }
  if (!made[0]) kc_unclaimed("it has no f32 MatMul");
}

void kernel_constant_inputs(void) {
  kc_each_op(NULL, def_constant_inputs, KD_F32, kernel_all_ops());
  if (!kc.op && kc_case("weights=equal-bytes")) equal_bytes();
}

/* `supports` and `cost` see a node; its constants are gone when another is created. */
static void constant_lifetime(kc_op_case *one, const kd_kernel_def *def) {
  for (int gone = 0; gone < 2; gone++) {
    char *seen = pages_make(), *kept = pages_make();
    held asked, made;
    if (hold_node(one, def, KERNEL_TURNED | KERNEL_DOUBLED, seen, &asked)) {
      for (uint32_t i = 0; i < kp.kernel_count; i++) {
        const kd_kernel_def *each = &kp.kernels[i];
        if (!kc_def_fits(each, asked.node) ||
            kc_supports(each, asked.node) != KD_OK || !each->cost)
          continue;
        kd_cost cost = {.struct_size = sizeof cost};
        (void)KC_CALL(kd_status,
                      each->cost(kc_device(), &asked.node->node, &cost),
                      "%s.cost", each->op);
      }
      memset(seen, 0x3c, ROOM);
      if (gone) mprotect(seen, ROOM, PROT_NONE);
      kernel_constant_let_go(&asked);
    }
    if (hold_node(one, def, 0, kept, &made)) {
      made.run = kc_run_of(made.node, def, &made.one.op, &kc_plain);
      run_held(&made,
               "with a constant elsewhere than `supports` saw it, an"
               " output (does the plugin keep that address?)");
      kernel_constant_let_go(&made);
    }
    munmap(seen, ROOM);
    munmap(kept, ROOM);
  }
}

static void def_constant_lifetime(kc_op_case *one, kc_node *node,
                                  const kd_kernel_def *def) {
  (void)node;
  (void)def;
  each_constants(one, constant_lifetime);
}

void kernel_constant_lifetime(void) {
  kc_each_op(NULL, def_constant_lifetime, KD_F32, kernel_all_ops());
}
