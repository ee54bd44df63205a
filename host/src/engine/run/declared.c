/* declared.c - compares inputs with ports, and reports how they differ. */
#include "run/declared.h"

#include <kd/help.h>
#include <stdarg.h>

#include "program/function.h"
#include "values/strings.h"

keel_fit keel_declared_fit(const keel_port *port, const keel_tensor *input) {
  const keel_type *type = input->type;
  if (!port->dtype || !keel_port_is_tensor(port))
    return KEEL_FITS; /* ops say what they need */
  if (!keel_is_tensor(input) || type->dtype != port->dtype)
    return KEEL_FITS_NOT;
  if (port->rank == KEEL_RANK_UNKNOWN) return KEEL_FITS;
  if (type->rank != port->rank) return KEEL_FITS_BUT_SHAPE;
  for (uint32_t i = 0; i < port->rank; i++)
    if (port->dims[i] >= 0 && port->dims[i] != type->dims[i])
      return KEEL_FITS_BUT_SHAPE;
  return KEEL_FITS;
}

/* "f32[batch, 3, ?]" */
static void write_port(const keel_port *port, keel_text *text) {
  keel_text_add(text, "%s", kd_dtype_name(port->dtype));
  if (port->rank == KEEL_RANK_UNKNOWN) {
    keel_text_add(text, " of any shape");
    return;
  }
  for (uint32_t i = 0; i < port->rank; i++) {
    const char *symbol = port->symbols ? port->symbols[i] : NULL;
    keel_text_add(text, i ? "," : "[");
    if (port->dims[i] >= 0)
      keel_text_add(text, "%lld", (long long)port->dims[i]);
    else
      keel_text_add(text, "%s", symbol ? symbol : "?");
  }
  keel_text_add(text, port->rank ? "]" : "[]");
}

keel_status keel_declared_fail(const keel_port *port, keel_tensor *input,
                               const char *why) {
  char given[200];
  keel_text declared = {0};
  write_port(port, &declared);
  keel_status status = keel_fail(
      KD_INVALID_ARGUMENT, "input \"%s\" is %s, and the program declares %s%s",
      port->name, keel_tensor_text(input, given, sizeof given),
      keel_text_get(&declared), why);
  keel_text_free(&declared);
  return status;
}

keel_status keel_declared_check(const keel_port *ports, uint32_t count,
                                keel_tensor *const *inputs,
                                uint32_t *out_mismatch) {
  *out_mismatch = KEEL_ABSENT;
  for (uint32_t i = 0; i < count; i++) {
    if (keel_tensor_state(inputs[i]) != KEEL_READY) continue;
    keel_fit fit = keel_declared_fit(&ports[i], inputs[i]);
    if (fit == KEEL_FITS_NOT)
      return keel_declared_fail(&ports[i], inputs[i], "");
    if (fit == KEEL_FITS_BUT_SHAPE && *out_mismatch == KEEL_ABSENT)
      *out_mismatch = i;
  }
  return KD_OK;
}

/* ---- why a run may have failed --------------------------------------------------- */

/* The size of a ready input in a named dimension of its port; NULL if there is none, or
 * the run had taken the input. */
static const char *symbol_of(const keel_port *port, keel_tensor *input,
                             uint32_t dim, int64_t *out_size) {
  if (!input || keel_tensor_state(input) != KEEL_READY ||
      input->kind != KEEL_DATA || !port->symbols ||
      input->type->rank != port->rank || !port->symbols[dim])
    return NULL;
  *out_size = input->type->dims[dim];
  return port->symbols[dim];
}

/* Finds another input whose dimension has the same name but another size. */
static bool find_other(const keel_port *ports, uint32_t count,
                       keel_tensor *const *inputs, const char *symbol,
                       int64_t size, uint32_t *out_input, int64_t *out_size) {
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; ports[i].symbols && k < ports[i].rank; k++) {
      const char *name = symbol_of(&ports[i], inputs[i], k, out_size);
      if (!name || strcmp(name, symbol) != 0 || *out_size == size) continue;
      *out_input = i;
      return true;
    }
  return false;
}

/* Appends this to the existing message. */
static keel_status also(keel_status status, const char *format, ...)
    KD_PRINTF(2, 3);
static keel_status also(keel_status status, const char *format, ...) {
  char text[400], more[400];
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  snprintf(text, sizeof text, "%s", keel_message());
  return keel_fail(status, "%s (%s)", text, more);
}

keel_status keel_declared_explain(const keel_port *ports, uint32_t count,
                                  keel_tensor *const *inputs, uint32_t mismatch,
                                  keel_status status) {
  if (mismatch != KEEL_ABSENT) {
    char text[400];
    snprintf(text, sizeof text, "%s", keel_message());
    keel_declared_fail(&ports[mismatch], inputs[mismatch], "");
    char declared[400];
    snprintf(declared, sizeof declared, "%s", keel_message());
    return keel_fail(status, "%s (%s)", text, declared);
  }
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; ports[i].symbols && k < ports[i].rank; k++) {
      int64_t size = 0, other = 0;
      uint32_t at = 0;
      const char *symbol = symbol_of(&ports[i], inputs[i], k, &size);
      if (symbol && find_other(ports, count, inputs, symbol, size, &at, &other))
        return also(status,
                    "the model has one size \"%s\", which is %lld in input"
                    " \"%s\" and %lld in input \"%s\"",
                    symbol, (long long)size, ports[i].name, (long long)other,
                    ports[at].name);
    }
  return status;
}
