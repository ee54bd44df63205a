/* runner.h - behind a kernel's source: runs its groups, one after the other. The items of
 * one take turns at barriers where the kernel has some: each is a fiber. */
#undef asm

template <typename Kernel>
struct standin_of;
template <typename... Arguments>
struct standin_of<void (*)(Arguments...)> {
  static constexpr unsigned sizes[] = {sizeof(Arguments)..., 0};
  template <size_t... I>
  static void call(void (*kernel)(Arguments...), void **arguments,
                   std::index_sequence<I...>) {
    kernel(*(Arguments *)arguments[I]...);
  }
  static void call(void (*kernel)(Arguments...), void **arguments) {
    call(kernel, arguments, std::index_sequence_for<Arguments...>{});
  }
};
typedef standin_of<decltype(&family)> standin_family;

struct standin_fiber {
  ucontext_t context;
  bool ended;
};
static thread_local standin_fiber *standin_fibers;
static thread_local ucontext_t standin_turns;
static thread_local void **standin_arguments;

static void standin_barrier(void) {
  unsigned item = threadIdx.x;
  swapcontext(&standin_fibers[item].context, &standin_turns);
  threadIdx.x = item;
}

static void standin_item(void) {
  unsigned item = threadIdx.x;
  standin_family::call(family, standin_arguments);
  standin_fibers[item].ended = true;
}

static void standin_group(unsigned count, char *stacks, size_t size) {
  for (unsigned i = 0; i < count; i++) {
    standin_fiber *fiber = &standin_fibers[i];
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = stacks + i * size;
    fiber->context.uc_stack.ss_size = size;
    fiber->context.uc_link = &standin_turns;
    fiber->ended = false;
    makecontext(&fiber->context, standin_item, 0);
  }
  for (bool going = true; going;) {
    going = false;
    for (unsigned i = 0; i < count; i++) {
      if (standin_fibers[i].ended) continue;
      threadIdx.x = i;
      swapcontext(&standin_turns, &standin_fibers[i].context);
      going = true;
    }
  }
}

extern "C" __attribute__((visibility("default")))
const unsigned *const standin_sizes = standin_family::sizes;

extern "C" __attribute__((visibility("default"))) void standin_run(
    unsigned groups, unsigned group, void **arguments) {
  const size_t size = 65536;
  if (!STANDIN_BARRIERS) {
    for (blockIdx.x = 0; blockIdx.x < groups; blockIdx.x++)
      for (threadIdx.x = 0; threadIdx.x < group; threadIdx.x++)
        standin_family::call(family, arguments);
    return;
  }
  char *stacks = (char *)malloc(size * group);
  standin_fibers = (standin_fiber *)calloc(group, sizeof *standin_fibers);
  standin_arguments = arguments;
  if (!stacks || !standin_fibers) abort();
  for (blockIdx.x = 0; blockIdx.x < groups; blockIdx.x++)
    standin_group(group, stacks, size);
  free(standin_fibers);
  free(stacks);
}
