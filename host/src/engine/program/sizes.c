/* sizes.c - gives open dimensions of a program's inputs their sizes. */
#include "program/sizes.h"

#include "device/device.h"

keel_status keel_function_fix(keel_function *f, uint32_t input,
                              const int64_t *dims) {
  keel_port *port = &f->input_ports[input];
  port->dims = keel_arena_copy_bytes(f->arena, dims, port->rank * sizeof *dims);
  if (!port->dims) return KD_OUT_OF_MEMORY;
  keel_value_info *value = &f->values[f->inputs[input]];
  value->type = keel_port_type(port);
  return value->type || !port->dtype ? KD_OK : KD_INVALID_ARGUMENT;
}

static keel_status sizes_refuse(const keel_port *port, uint32_t dim,
                                int64_t size) {
  return keel_fail(KD_INVALID_ARGUMENT,
                   "dimension %u of input \"%s\" is %lld, and can't be %lld",
                   (unsigned)dim, port->name, (long long)port->dims[dim],
                   (long long)size);
}

/* A rank that is not known becomes what is given. */
static keel_status give_rank(keel_function *f, uint32_t input, uint32_t rank) {
  keel_port *port = &f->input_ports[input];
  if (port->rank == rank) return KD_OK;
  if (port->rank != KEEL_RANK_UNKNOWN)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "input \"%s\" has %u dimensions, not %u", port->name,
                     (unsigned)port->rank, (unsigned)rank);
  int64_t *open = keel_arena_take(f->arena, (rank + 1) * sizeof *open);
  if (!open || rank > 16) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < rank; i++)
    open[i] = -1;
  port->rank = rank;
  port->dims = open;
  return KD_OK;
}

/* Gives a name's size to all open dimensions of that name. */
static keel_status fix_symbol(keel_function *f, const char *symbol,
                              int64_t size) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    const keel_port *port = &f->input_ports[i];
    int64_t dims[16];
    bool changed = false;
    if (port->rank > 16 || !port->symbols) continue;
    for (uint32_t d = 0; d < port->rank; d++) {
      bool same = port->symbols[d] && !strcmp(port->symbols[d], symbol);
      dims[d] = port->dims[d];
      if (same && dims[d] >= 0 && dims[d] != size)
        return sizes_refuse(port, d, size);
      if (same && dims[d] < 0) {
        dims[d] = size;
        changed = true;
      }
    }
    if (changed) KEEL_TRY(keel_function_fix(f, i, dims));
  }
  return KD_OK;
}

static keel_status fix_input(keel_function *f, const keel_input_sizes *given) {
  if (given->input >= f->input_count)
    return keel_fail(KD_OUT_OF_RANGE, "the program has %u inputs, not %u",
                     (unsigned)f->input_count, (unsigned)given->input + 1);
  const keel_port *port = &f->input_ports[given->input];
  if (!keel_port_is_tensor(port))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "input \"%s\" is not a tensor, and has no dimensions",
                     port->name);
  if (given->rank > 16)
    return keel_fail(KD_INVALID_ARGUMENT, "%u dimensions are more than 16",
                     (unsigned)given->rank);
  KEEL_TRY(give_rank(f, given->input, given->rank));
  int64_t dims[16];
  for (uint32_t d = 0; d < given->rank; d++) {
    dims[d] = port->dims[d];
    if (given->dims[d] < 0) continue;
    if (dims[d] >= 0 && dims[d] != given->dims[d])
      return sizes_refuse(port, d, given->dims[d]);
    dims[d] = given->dims[d];
  }
  KEEL_TRY(keel_function_fix(f, given->input, dims));
  for (uint32_t d = 0; d < given->rank && port->symbols; d++)
    if (port->symbols[d] && given->dims[d] >= 0)
      KEEL_TRY(fix_symbol(f, port->symbols[d], given->dims[d]));
  return KD_OK;
}

keel_status keel_function_fix_inputs(keel_function *f,
                                     const keel_input_sizes *inputs,
                                     uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    KEEL_TRY(fix_input(f, &inputs[i]));
  return KD_OK;
}

static keel_status sizes_fill(keel_program *to, const keel_program *from,
                              const keel_input_sizes *inputs, uint32_t count) {
  KEEL_TRY(
      keel_function_clone(from->main, &to->arena, &to->functions, &to->main));
  KEEL_TRY(keel_function_fix_inputs(to->main, inputs, count));
  KEEL_TRY(keel_function_sort(to->main));
  return keel_function_types(to->main);
}

keel_status keel_program_fix(const keel_program *program,
                             const keel_input_sizes *inputs, uint32_t count,
                             keel_program **out_program) {
  keel_program *made = NULL;
  *out_program = NULL;
  if (program->device)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "the program is compiled for %s, for the sizes that it"
                     " has",
                     program->device->name);
  KEEL_TRY(keel_program_create(program->context, &made));
  keel_status status = sizes_fill(made, program, inputs, count);
  if (status == KD_OK)
    *out_program = made;
  else
    keel_program_release(made);
  return status;
}
