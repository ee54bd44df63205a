/* external_test.c - tensors' memory for others, and theirs: by descriptors between the
 * devices of the CPU, OpenCL and Vulkan, and with another process; host memory that a device
 * reads where it lies. Devices that are not there are left out. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "layers/layers.h"
#include "memory/copy.h"
#include "one_context.h"

enum { COUNT = 1 << 16, BYTES = COUNT * (int)sizeof(float) };

static float data[COUNT], got[COUNT];
static const int64_t dims[] = {COUNT};

/* ---- what is called ----------------------------------------------------------------------- */

enum { IN, OUT, IMPORT, EXPORT, SLOTS };
static atomic_int calls[SLOTS];

static void count(void *unused, uint32_t level, const char *line) {
  static const char *const slots[SLOTS] = {
      "trace: memory.copy_in(", "trace: memory.copy_out(",
      "trace: external.import_memory(", "trace: external.export_memory("};
  (void)unused;
  (void)level;
  for (int i = 0; i < SLOTS; i++)
    if (strstr(line, slots[i])) calls[i]++;
}

static int called(int slot) {
  return atomic_exchange(&calls[slot], 0);
}

static void forget(void) {
  for (int i = 0; i < SLOTS; i++)
    calls[i] = 0;
}

/* ---- contexts, tensors -------------------------------------------------------------------- */

SETUP(begin) {
  static const char *const paths[] = {CPU_PLUGIN, OPENCL_PLUGIN, VULKAN_PLUGIN};
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths, 3,
            .workers = KEEL_NO_WORKERS, .log = count);
  expect_ok(keel_layers_set("trace,validation"));
  expect_ok(keel_open(&params, &context));
  for (uint32_t i = 0; i < keel_device_count(context); i++)
    expect_ok(keel_device_ready(keel_device_at(context, i)));
  for (int i = 0; i < COUNT; i++)
    data[i] = (float)i - (float)COUNT / 2;
  return 0;
}

SETUP(end) {
  keel_close(context);
  return keel_layers_set("");
}

static keel_device *named(const char *name) {
  keel_device *device = NULL;
  return keel_device_find(context, name, &device) == KD_OK ? device : NULL;
}

static void done_with(void *flag) {
  ++*(int *)flag;
}

/* A tensor in the device's own memory. */
static keel_tensor *on(keel_device *device) {
  keel_tensor *host = floats(context, COUNT, data), *there = NULL;
  expect_ok(keel_copy_to(host, device, &there));
  keel_tensor_release(host);
  return there;
}

static void expect_data(keel_tensor *tensor) {
  memset(got, 0, sizeof got);
  expect_ok(keel_tensor_read(tensor, got, sizeof got));
  assert_memory_equal(got, data, sizeof got);
}

static bool is_open(uint64_t file) {
  return fcntl((int)file, F_GETFD) >= 0;
}

/* Whether the device exports it so. */
static bool exported(keel_tensor *tensor, uint32_t kind, kd_external *out) {
  keel_status status = keel_tensor_export(tensor, kind, out);
  if (status == KD_UNIMPLEMENTED) return false;
  expect_ok(status);
  assert_int_equal(out->kind, kind);
  assert_true(out->size >= BYTES && is_open(out->handle));
  return true;
}

/* ---- out ---------------------------------------------------------------------------------- */

/* Whoever maps it sees the value, also when the tensor is gone and others were made. */
static void expect_mapped(keel_device *device, bool made_for) {
  kd_external memory;
  if (made_for) expect_ok(keel_device_export(device, KD_EXTERNAL_SHARED_FD));
  keel_tensor *tensor = on(device);
  assert_true(exported(tensor, KD_EXTERNAL_SHARED_FD, &memory));
  keel_tensor_release(tensor);
  void *at = mmap(NULL, (size_t)memory.size, PROT_READ, MAP_SHARED,
                  (int)memory.handle, 0);
  assert_true(at != MAP_FAILED);
  close((int)memory.handle);
  for (int i = 0; i < 4; i++) {
    keel_tensor *other = NULL;
    expect_ok(keel_tensor_fill(context, device, KD_F32, 1, dims, NULL, &other));
    keel_tensor_release(other);
  }
  assert_memory_equal((char *)at + memory.offset, data, BYTES);
  munmap(at, (size_t)memory.size);
  if (made_for) expect_ok(keel_device_export(device, 0));
}

TEST_THAT(shared_memory_holds_the_value) {
  for (uint32_t i = 0; i < keel_device_count(context); i++) {
    expect_mapped(keel_device_at(context, i), false);
    expect_mapped(keel_device_at(context, i), true);
  }
}

/* y = relu(x) is made by the device's own work, which is waited for. */
TEST_THAT(work_is_waited_for) {
  for (uint32_t i = 0; i < keel_device_count(context); i++) {
    keel_device *device = keel_device_at(context, i);
    kd_external memory;
    expect_ok(keel_device_export(device, KD_EXTERNAL_SHARED_FD));
    keel_tensor *x = on(device), *y = NULL;
    y = call_op_on(device, context, "Relu", &x, 1);
    assert_true(exported(y, KD_EXTERNAL_SHARED_FD, &memory));
    float *at = mmap(NULL, (size_t)memory.size, PROT_READ, MAP_SHARED,
                     (int)memory.handle, 0);
    assert_true(at != MAP_FAILED);
    for (int k = 0; k < COUNT; k++)
      assert_true(at[k] == (data[k] > 0 ? data[k] : 0));
    munmap(at, (size_t)memory.size);
    close((int)memory.handle);
    RELEASE(x, y);
  }
}

/* Ops that may write over their input do not where somebody has it. */
TEST_THAT(nobody_writes_over_what_was_exported) {
  keel_device *device = named("cpu:0");
  kd_external memory;
  expect_ok(keel_device_export(device, KD_EXTERNAL_SHARED_FD));
  keel_tensor *x = on(device);
  assert_true(exported(x, KD_EXTERNAL_SHARED_FD, &memory));
  for (int i = 0; i < 2; i++) {
    keel_tensor *y = call_op_on(device, context, "Neg", &x, 1);
    keel_tensor_release(x);
    x = y;
  }
  expect_data(x);
  void *at = mmap(NULL, (size_t)memory.size, PROT_READ, MAP_SHARED,
                  (int)memory.handle, 0);
  assert_memory_equal(at, data, BYTES);
  munmap(at, (size_t)memory.size);
  close((int)memory.handle);
  keel_tensor_release(x);
}

/* ---- in ----------------------------------------------------------------------------------- */

static void expect_taken(keel_device *from, keel_device *to, uint32_t kind) {
  kd_external memory;
  keel_tensor *tensor = on(from), *there = NULL, *y = NULL;
  bool goes = exported(tensor, kind, &memory);
  keel_tensor_release(tensor);
  if (!goes) return;
  forget();
  expect_ok(keel_tensor_import(to, &memory, KD_F32, 1, dims, &there));
  assert_int_equal(called(IN), 0);
  assert_ptr_equal(keel_tensor_device(there), to);
  expect_data(there);
  y = call_op_on(to, context, "Relu", &there, 1);
  expect_ok(keel_tensor_read(y, got, sizeof got));
  for (int i = 0; i < COUNT; i++)
    assert_true(got[i] == (data[i] > 0 ? data[i] : 0));
  keel_tensor_release(y);
  expect_data(there);
  keel_tensor_release(there);
  assert_false(is_open(memory.handle));
}

TEST_THAT(each_device_takes_what_each_shares) {
  uint32_t devices = keel_device_count(context);
  for (uint32_t i = 0; i < devices * devices; i++)
    expect_taken(keel_device_at(context, i / devices),
                 keel_device_at(context, i % devices), KD_EXTERNAL_SHARED_FD);
  keel_device *vulkan = named("vulkan:0");
  if (vulkan) {
    expect_taken(vulkan, vulkan, KD_EXTERNAL_OPAQUE_FD);
    expect_taken(vulkan, vulkan, KD_EXTERNAL_DMA_BUF);
  }
}

/* The descriptor is still the caller's. */
static void expect_refused(keel_device *device, kd_external memory,
                           int64_t elements, keel_status want) {
  keel_tensor *tensor = NULL;
  keel_status status =
      keel_tensor_import(device, &memory, KD_F32, 1, &elements, &tensor);
  assert_int_equal(status, want);
  assert_null(tensor);
  assert_true(keel_message()[0]);
  assert_true(is_open(memory.handle));
}

TEST_THAT(a_refused_descriptor_is_still_the_callers) {
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  for (uint32_t i = 0; i < keel_device_count(context); i++) {
    keel_device *device = keel_device_at(context, i);
    kd_external memory;
    keel_tensor *tensor = on(device);
    assert_true(exported(tensor, KD_EXTERNAL_SHARED_FD, &memory));
    kd_external other = memory;
    expect_refused(device, memory, (int64_t)memory.size,
                   KD_INVALID_ARGUMENT); /* four times as much */
    other.size = memory.size + 1;        /* it is not so long */
    expect_refused(device, other, COUNT, KD_INVALID_ARGUMENT);
    other.size = memory.size;
    other.kind = KD_EXTERNAL_HOST_POINTER;
    expect_refused(device, other, COUNT, KD_INVALID_ARGUMENT);
    other.kind = 999;
    expect_refused(device, other, COUNT, KD_INVALID_ARGUMENT);
    other = memory;
    other.offset = 4; /* no device's alignment */
    other.size -= 4;
    expect_refused(device, other, COUNT - 1, KD_UNIMPLEMENTED);
    other = memory;
    other.handle = (uint64_t)pipes[0];
    expect_refused(device, other, COUNT, KD_INVALID_ARGUMENT);
    close((int)memory.handle);
    keel_tensor_release(tensor);
  }
  close(pipes[0]);
  close(pipes[1]);
}

TEST_THAT(what_can_not_be_exported_is_refused) {
  kd_external memory;
  int64_t none = 0;
  keel_device *device = named("cpu:0");
  keel_tensor *host = floats(context, COUNT, data), *there = on(device),
              *empty = NULL;
  expect_fails(keel_tensor_export(host, KD_EXTERNAL_SHARED_FD, &memory),
               KD_INVALID_ARGUMENT, "host memory");
  assert_int_equal(keel_tensor_export(there, KD_EXTERNAL_HOST_POINTER, &memory),
                   KD_INVALID_ARGUMENT);
  assert_int_equal(keel_tensor_export(there, KD_EXTERNAL_OPAQUE_FD, &memory),
                   KD_UNIMPLEMENTED);
  assert_int_equal(keel_device_export(device, KD_EXTERNAL_OPAQUE_FD),
                   KD_UNIMPLEMENTED);
  assert_int_equal(keel_device_export(device, KD_EXTERNAL_HOST_POINTER),
                   KD_INVALID_ARGUMENT);
  expect_ok(keel_tensor_fill(context, device, KD_F32, 1, &none, NULL, &empty));
  assert_int_equal(keel_tensor_export(empty, KD_EXTERNAL_SHARED_FD, &memory),
                   KD_INVALID_ARGUMENT);
  RELEASE(empty, there, host);
}

/* ---- from device to device ---------------------------------------------------------------- */

static void expect_handed(keel_device *from, keel_device *to) {
  keel_tensor *tensor = on(from), *there = NULL;
  forget();
  expect_ok(keel_tensor_to(tensor, to, &there));
  assert_int_equal(called(IN) + called(OUT), 0);
  assert_int_equal(called(EXPORT), 1);
  assert_int_equal(called(IMPORT), 1);
  assert_ptr_equal(keel_tensor_device(there), to);
  keel_tensor_release(tensor); /* the other one has the memory */
  keel_tensor *other = on(from);
  expect_data(there);
  RELEASE(other, there);
}

TEST_THAT(a_device_hands_memory_to_another_one) {
  static const char *const others[] = {"opencl:0", "vulkan:0"};
  for (size_t i = 0; i < KEEL_COUNT_OF(others); i++) {
    keel_device *from = named(others[i]), *to = named(others[1 - i]);
    if (!from) continue;
    expect_ok(keel_device_export(from, KD_EXTERNAL_SHARED_FD));
    expect_handed(from, named("cpu:0"));
    if (to) expect_handed(from, to);
    expect_ok(keel_device_export(from, 0));
    keel_tensor *tensor = on(from), *there = NULL;
    forget();
    expect_ok(keel_tensor_to(tensor, named("cpu:0"), &there));
    assert_int_equal(called(EXPORT), 0);
    expect_data(there);
    RELEASE(there, tensor);
  }
}

/* ---- from process to process -------------------------------------------------------------- */

static const char *this_program; /* under valgrind that is not /proc/self/exe */

/* Gives the descriptor to a program of its own, this one with arguments. */
static void expect_child_takes(const kd_external *memory, const char *device) {
  char numbers[4][24];
  const uint64_t all[] = {memory->kind, memory->handle, memory->offset,
                          memory->size};
  int status = 0;
  for (int i = 0; i < 4; i++)
    snprintf(numbers[i], sizeof numbers[i], "%llu", (unsigned long long)all[i]);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    fcntl((int)memory->handle, F_SETFD, 0);
    execl(this_program, this_program, device, numbers[0], numbers[1],
          numbers[2], numbers[3], (char *)NULL);
    _exit(9);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_msg("kind %u on %s of another process: status 0x%x", memory->kind,
             device, (unsigned)status);
}

static int be_child(char **arguments) {
  kd_external memory = {.struct_size = sizeof memory};
  keel_tensor *tensor = NULL;
  begin(NULL);
  memory.kind = (uint32_t)strtoull(arguments[2], NULL, 10);
  memory.handle = strtoull(arguments[3], NULL, 10);
  memory.offset = strtoull(arguments[4], NULL, 10);
  memory.size = strtoull(arguments[5], NULL, 10);
  memory.access = KD_READ;
  if (keel_tensor_import(named(arguments[1]), &memory, KD_F32, 1, dims,
                         &tensor) != KD_OK ||
      keel_tensor_read(tensor, got, sizeof got) != KD_OK) {
    fprintf(stderr, "%s\n", keel_message());
    return 1;
  }
  keel_tensor_release(tensor);
  end(NULL);
  return memcmp(got, data, sizeof got) != 0 ? 2 : 0;
}

TEST_THAT(another_process_takes_it) {
  static const uint32_t kinds[] = {KD_EXTERNAL_SHARED_FD, KD_EXTERNAL_OPAQUE_FD,
                                   KD_EXTERNAL_DMA_BUF};
  kd_external memory;
  for (uint32_t i = 0; i < keel_device_count(context); i++) {
    keel_device *device = keel_device_at(context, i);
    for (size_t k = 0; k < KEEL_COUNT_OF(kinds); k++) {
      keel_tensor *tensor = on(device);
      if (exported(tensor, kinds[k], &memory)) {
        keel_tensor_release(tensor); /* the descriptor is enough */
        expect_child_takes(&memory, device->name);
        if (kinds[k] == KD_EXTERNAL_SHARED_FD)
          expect_child_takes(&memory, "cpu:0");
        close((int)memory.handle);
      } else {
        keel_tensor_release(tensor);
      }
    }
  }
}

/* ---- host memory -------------------------------------------------------------------------- */

static void expect_in_place(keel_device *device, uint64_t offset, bool in) {
  int done = 0;
  char *memory = aligned_alloc(4096, BYTES + 4096);
  keel_tensor *host = NULL, *there = NULL;
  assert_non_null(memory);
  memcpy(memory + offset, data, BYTES);
  expect_ok(keel_tensor_wrap(context, KD_F32, 1, dims, memory + offset,
                             done_with, &done, &host));
  forget();
  expect_ok(keel_tensor_to(host, device, &there));
  keel_tensor_release(host);
  expect_data(there);
  if (keel_device_addressable(device))
    assert_int_equal(keel_tensor_data(there) == memory + offset, in);
  else
    assert_int_equal(called(IN), !in);
  assert_int_equal(done, !in); /* it reads there as long as it lives */
  keel_tensor_release(there);
  assert_int_equal(done, 1);
  free(memory);
}

TEST_THAT(host_memory_is_read_where_it_lies) {
  for (uint32_t i = 0; i < keel_device_count(context); i++) {
    keel_device *device = keel_device_at(context, i);
    expect_in_place(device, 0, true);
    expect_in_place(device, 256, true);
    expect_in_place(device, 4, false); /* no device's alignment: a copy */
  }
}

/* A constant of a program is one piece of host memory for the program and its plans. */
TEST_THAT(constants_are_read_where_they_lie) {
  for (uint32_t i = 0; i < keel_device_count(context); i++) {
    keel_device *device = keel_device_at(context, i);
    int done = 0;
    char *memory = aligned_alloc(4096, BYTES);
    keel_tensor *constant = NULL, *x = on(device), *y = NULL;
    assert_non_null(memory);
    memcpy(memory, data, BYTES);
    expect_ok(keel_tensor_wrap(context, KD_F32, 1, dims, memory, done_with,
                               &done, &constant));
    keel_builder *builder = create_builder(context, "constant");
    keel_value a = keel_builder_input(builder, "a", KD_F32, 1, dims);
    keel_value b = keel_builder_constant(builder, constant);
    keel_builder_output(builder, "y", op(builder, "Max", a, b));
    keel_tensor_release(constant);
    keel_program *program = finish_program(builder);
    forget();
    keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = device));
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    assert_int_equal(called(IN), 0);
    expect_data(y);
    assert_int_equal(done, 0);
    RELEASE(x, y, plan, program);
    assert_int_equal(done, 1);
    free(memory);
  }
}

int main(int count_of, char **arguments) {
  this_program = arguments[0];
  if (count_of == 6) return be_child(arguments);
  around_each(begin, end);
  return tests_run(NULL, NULL);
}
