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

/* The first --dim of that name, or NULL. */
static const char *first_dim(const given_sizes *given, const char *name) {
  for (uint32_t i = 0; name && i < given->dims->count; i++)
    if (size_for(given->dims->words[i], name) >= 0)
      return given->dims->words[i];
  return NULL;
}

int64_t sizes_dim(const given_sizes *given, const keel_port *port,
                  uint32_t dim) {
  const char *name = port->symbols ? port->symbols[dim] : NULL;
  const char *word = first_dim(given, name);
  return word ? size_for(word, name) : -1;
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
            given->command, shown(given->shapes->words[i]),
            *names ? shown(names) : " none");
    return false;
  }
  return true;
}

/* The names of open dimensions; whether one of them and a size are `word`. */
static bool is_dim(const keel_port *ports, uint32_t count, const char *word,
                   char *names, size_t capacity) {
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
        snprintf(names + size, capacity - size, "%s", quoted);
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
            given->command, shown(given->dims->words[i]),
            *there ? shown(there) : " none that has a name");
    return false;
  }
  return true;
}

/* ---- words that contradict others --------------------------------------------- */

/* Two words that give one input its sizes, or one name two. */
static bool contradict(const given_sizes *given, const char *a_option,
                       const char *a, const char *b_option, const char *b,
                       const char *of, const char *name) {
  fprintf(
      stderr, "keel %s: %s %s and %s %s are two sizes of %s \"%s\"; drop one\n",
      given->command, a_option, shown(a), b_option, shown(b), of, shown(name));
  return false;
}

/* One --shape of an input, and each --dim of it as the shape has it. */
static bool agree_on(const given_sizes *given, const keel_port *port) {
  const char *shape = NULL;
  uint32_t rank = 0;
  int64_t dims[16];
  for (uint32_t i = 0; i < given->shapes->count; i++) {
    const char *word = given->shapes->words[i];
    if (!sizes_value_for(word, port->name)) continue;
    if (shape)
      return contradict(given, "--shape", shape, "--shape", word, "input",
                        port->name);
    shape = word;
  }
  if (!shape || !sizes_shape(given, port->name, &rank, dims)) return true;
  for (uint32_t d = 0; port->symbols && d < port->rank && d < rank; d++)
    for (uint32_t i = 0; port->symbols[d] && i < given->dims->count; i++) {
      const char *word = given->dims->words[i];
      int64_t size = size_for(word, port->symbols[d]);
      if (size >= 0 && size != dims[d])
        return contradict(given, "--shape", shape, "--dim", word, "dimension",
                          port->symbols[d]);
    }
  return true;
}

/* One size for each open dimension of an input. */
static bool dims_agree(const given_sizes *given, const keel_port *port) {
  for (uint32_t d = 0; port->symbols && d < port->rank; d++)
    for (uint32_t i = 0; port->symbols[d] && i < given->dims->count; i++) {
      const char *word = given->dims->words[i];
      int64_t size = size_for(word, port->symbols[d]);
      if (size >= 0 && size != sizes_dim(given, port, d))
        return contradict(given, "--dim", word, "--dim",
                          first_dim(given, port->symbols[d]), "dimension",
                          port->symbols[d]);
    }
  return true;
}

bool sizes_check(const given_sizes *given, const keel_port *ports,
                 uint32_t count, bool whole) {
  if ((whole && !check_dims(given, ports, count)) ||
      !check_shapes(given, ports, count))
    return false;
  for (uint32_t i = 0; i < count; i++)
    if ((whole && !dims_agree(given, &ports[i])) || !agree_on(given, &ports[i]))
      return false;
  return true;
}

/* ---- a program of these sizes --------------------------------------------------- */

/* The sizes of an input; false if none are given. */
static bool sizes_fill(const given_sizes *given, const keel_port *port,
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
    said += sizes_fill(given, &ports[i], &inputs[said], dims[said]);
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
