/* run_split.c - `keel run --split`: sizes that are known, the ranks' speeds, and their programs. */
#include "run.h"
#include "sizes.h"

/* Answers the questions of a split. */
typedef struct sizes {
  const run_arguments *all;
  run_session *run;
  parting_dims dims;
} sizes;

/* The file that is given for a program's input: by its name, or in its turn. NULL: none is. */
static const char *file_for(const run_arguments *all,
                            const keel_program *program, const char *input) {
  bool named[RUN_PORTS] = {false};
  const char *files[RUN_PORTS] = {NULL};
  uint32_t count = keel_program_input_count(program), next = 0;
  keel_port port;
  if (count > RUN_PORTS) count = RUN_PORTS;
  for (uint32_t i = 0; i < all->inputs.count; i++) {
    const char *word = all->inputs.words[i];
    uint32_t at = 0;
    while (at < count && keel_program_input(program, at, &port) == KD_OK &&
           !sizes_value_for(word, port.name))
      at++;
    while (at == count && next < count && named[next])
      next++;
    if (at == count && next < count) {
      files[next] = word;
      named[next++] = true;
    } else if (at < count) {
      files[at] = sizes_value_for(word, port.name);
      named[at] = true;
    }
  }
  for (uint32_t i = 0; i < count; i++)
    if (keel_program_input(program, i, &port) == KD_OK &&
        !strcmp(port.name, input))
      return files[i];
  return NULL;
}

/* The size in the file that is given; -1: none is, or it has other dimensions. */
static int64_t size_in_file(const sizes *asked, const char *input,
                            uint32_t axis) {
  const char *file = file_for(asked->all, asked->run->program, input);
  keel_tensor *value = NULL;
  int64_t size = -1;
  if (!file || keel_value_load(asked->run->context, file, KEEL_FILE_TENSOR,
                               &value) != KD_OK)
    return -1; /* reported when the inputs are read */
  if (axis < keel_tensor_rank(value)) size = keel_tensor_dims(value)[axis];
  keel_tensor_release(value);
  return size;
}

/* As --dim has it, or else --shape, or the input's file; else 1. */
static int64_t split_size(void *context, const char *input, uint32_t axis,
                          const char *symbol) {
  sizes *asked = context;
  uint32_t rank = 0;
  int64_t shape[16], given = parting_size(&asked->dims, symbol);
  if (given >= 0) return given;
  if (run_given_shape(asked->all, input, &rank, shape) && axis < rank)
    return shape[axis];
  int64_t size = size_in_file(asked, input, axis);
  return size < 0 ? 1 : size;
}

/* The number of ranks, and this one's. */
static void find_rank(run_session *run, uint32_t *out_rank,
                      uint32_t *out_size) {
  keel_link_facts facts = {.size = 1};
  if (run->link) keel_link_look(run->link, &facts);
  *out_rank = facts.rank;
  *out_size = run->several.group ? run->several.count : facts.size;
}

/* Of a pipe, what balances it. Returns 0, or the exit status. */
static int find_speeds(const run_session *run, keel_split_params *params,
                       keel_split_speed **out_speeds) {
  keel_device *own = run->device;
  *out_speeds = NULL;
  if (params->kind != KEEL_SPLIT_PIPE) return 0;
  if (!own && keel_device_find(run->context, NULL, &own) != KD_OK)
    return complain();
  *out_speeds = run->several.group ? parting_speeds(NULL, run->several.devices,
                                                    run->several.count)
                                   : parting_speeds(run->link, &own, 1);
  params->speeds = *out_speeds;
  return *out_speeds ? 0 : 1;
}

/* Each rank gets its program in place of the whole one. Returns 0, or the exit status. */
int run_split(const run_arguments *all, run_session *run) {
  sizes asked = {all, run, {.given = &all->dims}};
  keel_split_params params = {.struct_size = sizeof params,
                              .kind = (uint32_t)parting_kind(all->split),
                              .parts = (uint32_t)all->parts,
                              .size_of = split_size,
                              .size_context = &asked};
  keel_program *whole = run->program, *own = NULL;
  keel_split_speed *speeds = NULL;
  uint32_t rank = 0;
  find_rank(run, &rank, &params.size);
  int failed = find_speeds(run, &params, &speeds);
  if (failed) return failed;
  keel_status status = KD_OK;
  for (uint32_t i = 1; i < run->several.count && status == KD_OK; i++) {
    params.rank = i;
    status =
        keel_program_split(whole, &params, &run->several.programs[i], NULL);
  }
  params.rank = rank;
  if (status == KD_OK)
    status = keel_program_split(whole, &params, &own, &run->facts);
  free(speeds);
  if (!parting_knows(&asked.dims, "run", status)) {
    keel_program_release(own);
    return EXIT_USAGE;
  }
  if (status != KD_OK) return run_fail_or_widen(run, status);
  keel_program_release(whole);
  run->program = own;
  return 0;
}

/* All ranks' programs exchange the same; where they exchange nothing, each runs all of it. */
int run_check_ranks(const run_arguments *all, const run_session *run) {
  bool exchanges = false;
  keel_link_facts facts;
  if (!run->link) return 0;
  keel_link_look(run->link, &facts);
  for (uint32_t i = 0; i < run->input_count; i++)
    exchanges |= run_is_member(run, i);
  if (keel_link_check(run->link, run->program) != KD_OK) return complain();
  if (!exchanges && !facts.rank && facts.size > 1)
    fprintf(stderr,
            "keel run: %s has no exchanges: each of %u ranks runs all of it\n",
            all->model, (unsigned)facts.size);
  return 0;
}
