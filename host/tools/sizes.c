/* sizes.c - reads --shape and --dim, for `keel run` and `keel compile`. */
#include "sizes.h"

#include <errno.h>

/* "2x3" or "2,3", or "" of a scalar; false where it is none. */
static bool read_shape(const char *at, uint32_t *rank, int64_t *dims) {
  *rank = 0;
  while (*at) {
    char *end = NULL;
    errno = 0;
    if (*rank == 16 || *at < '0' || *at > '9') return false;
    dims[(*rank)++] = strtoll(at, &end, 10);
    bool more = (*end == 'x' || *end == ',') && end[1];
    if (errno || (*end && !more)) return false;
    at = end + more;
  }
  return true;
}

const char *sizes_value_for(const char *word, const char *name) {
  size_t size = strlen(name);
  return !strncmp(word, name, size) && word[size] == '=' ? word + size + 1
                                                         : NULL;
}

bool sizes_shape(const given_sizes *given, const char *name, uint32_t *rank,
                 int64_t *dims) {
  for (uint32_t i = 0; i < given->shapes->count; i++) {
    const char *shape = sizes_value_for(given->shapes->words[i], name);
    if (shape) return read_shape(shape, rank, dims);
  }
  return false;
}

int64_t sizes_dim(const given_sizes *given, const keel_port *port,
                  uint32_t dim) {
  const char *name = port->symbols ? port->symbols[dim] : NULL;
  for (uint32_t i = 0; name && i < given->dims->count; i++)
    if (size_for(given->dims->words[i], name) >= 0)
      return size_for(given->dims->words[i], name);
  return -1;
}

/* ---- words that name nothing -------------------------------------------------- */

/* Each --shape is an input's name, and sizes. */
static bool check_shapes(const given_sizes *given, const keel_port *ports,
                         uint32_t count) {
  for (uint32_t i = 0; i < given->shapes->count; i++) {
    bool good = false;
    uint32_t rank = 0;
    int64_t dims[16];
    char names[512] = "";
    for (uint32_t k = 0; k < count && !good; k++) {
      const char *shape =
          sizes_value_for(given->shapes->words[i], ports[k].name);
      good = shape && read_shape(shape, &rank, dims);
      size_t used = strlen(names);
      snprintf(names + used, sizeof names - used, " \"%s\"", ports[k].name);
    }
    if (good) continue;
    fprintf(stderr,
            "keel %s: --shape %s does not have the form INPUT=2x3; the "
            "model's inputs"
            " are%s\n",
            given->command, given->shapes->words[i],
            *names ? shown(names) : " none");
    return false;
  }
  return true;
}

/* The names of open dimensions; whether one of them and a size are `word`. */
static bool is_dim(const keel_port *ports, uint32_t count, const char *word,
                   char *names, size_t room) {
  bool known = false;
  for (uint32_t k = 0; k < count; k++)
    for (uint32_t d = 0; ports[k].symbols && d < ports[k].rank; d++) {
      const char *symbol = ports[k].symbols[d];
      char quoted[256];
      if (!symbol) continue;
      known |= size_for(word, symbol) >= 0;
      snprintf(quoted, sizeof quoted, " \"%s\"", symbol);
      size_t size = strlen(names);
      if (!strstr(names, quoted))
        snprintf(names + size, room - size, "%s", quoted);
    }
  return known;
}

/* Each --dim is the name of a dimension, and a size. */
static bool check_dims(const given_sizes *given, const keel_port *ports,
                       uint32_t count) {
  for (uint32_t i = 0; i < given->dims->count; i++) {
    char there[512] = "";
    if (is_dim(ports, count, given->dims->words[i], there, sizeof there))
      continue;
    fprintf(stderr,
            "keel %s: --dim %s is not NAME=SIZE of an open dimension; the"
            " model's inputs have%s\n",
            given->command, given->dims->words[i],
            *there ? shown(there) : " none that has a name");
    return false;
  }
  return true;
}

bool sizes_check(const given_sizes *given, const keel_port *ports,
                 uint32_t count, bool whole) {
  return (!whole || check_dims(given, ports, count)) &&
         check_shapes(given, ports, count);
}

/* ---- a program of these sizes --------------------------------------------------- */

/* The sizes of an input; false where nothing is said of it. */
static bool fill(const given_sizes *given, const keel_port *port,
                 keel_input_sizes *out, int64_t *dims) {
  bool said = sizes_shape(given, port->name, &out->rank, dims);
  if (said || port->rank == KEEL_RANK_UNKNOWN || port->rank > 16) return said;
  out->rank = port->rank;
  for (uint32_t d = 0; d < port->rank; d++) {
    dims[d] = port->dims[d] < 0 ? sizes_dim(given, port, d) : -1;
    said |= dims[d] >= 0;
  }
  return said;
}

int sizes_fix(const given_sizes *given, const keel_program *program,
              keel_program **out_program) {
  uint32_t count = keel_program_input_count(program), said = 0;
  keel_port *ports = calloc(count + 1, sizeof *ports);
  keel_input_sizes *inputs = calloc(count + 1, sizeof *inputs);
  int64_t(*dims)[16] = calloc(count + 1, sizeof *dims);
  int result = 0;
  *out_program = NULL;
  for (uint32_t i = 0; ports && inputs && dims && i < count; i++) {
    keel_program_input(program, i, &ports[i]);
    inputs[said] = (keel_input_sizes){.input = i, .dims = dims[said]};
    said += fill(given, &ports[i], &inputs[said], dims[said]);
  }
  if (!ports || !inputs || !dims) {
    fprintf(stderr, "keel %s: no memory\n", given->command);
    result = 1;
  } else if (!sizes_check(given, ports, count, true)) {
    result = EXIT_USAGE;
  } else if (said &&
             keel_program_fix(program, inputs, said, out_program) != KD_OK) {
    result = complain();
  }
  free(ports);
  free(inputs);
  free(dims);
  return result;
}
