/* passes.c - running the passes of the registry, in their order. */
#include <keel/debug.h>

#include "base/params.h"
#include "device/context.h"
#include "device/device.h"
#include "ops/registry.h"
#include "passes/passes.h"
#include "trace/trace.h"

/* NULL past the last. */
static const keel_pass *pass_at(uint32_t index) {
  const keel_registry *all = keel_registry_get();
  return index < all->pass_count ? &all->passes[index] : NULL;
}

const char *keel_pass_name(uint32_t index) {
  const keel_pass *pass = pass_at(index);
  return pass ? pass->name : NULL;
}

const char *keel_pass_about(uint32_t index) {
  const keel_pass *pass = pass_at(index);
  return pass ? pass->about : NULL;
}

int keel_pass_needed(uint32_t index) {
  const keel_pass *pass = pass_at(index);
  return pass && pass->needed;
}

int keel_pass_last(uint32_t index) {
  const keel_pass *pass = pass_at(index);
  return pass && pass->last;
}

static bool came_before(uint32_t index) {
  for (uint32_t i = 0; i < index; i++)
    if (!strcmp(pass_at(i)->name, pass_at(index)->name)) return true;
  return false;
}

/* Whether a name is a pass's that may be left out. */
static keel_status check_skip(const char *name) {
  keel_text there = {0};
  for (uint32_t i = 0; pass_at(i); i++) {
    if (pass_at(i)->needed || came_before(i)) continue;
    if (name && !strcmp(pass_at(i)->name, name)) {
      keel_text_free(&there);
      return KD_OK;
    }
    keel_text_add(&there, "%s%s", there.size ? ", " : "", pass_at(i)->name);
  }
  keel_fail(KD_NOT_FOUND,
            "no pass \"%s\" can be left out; those that can are %s",
            name ? name : "", keel_text_get(&there));
  keel_text_free(&there);
  return KD_NOT_FOUND;
}

static bool is_skipped(const keel_plan_params *params, const char *name) {
  for (uint32_t i = 0; i < params->skip_count; i++)
    if (!strcmp(params->skip[i], name)) return true;
  return false;
}

static keel_status check_on_pass(const keel_plan_params *params) {
  if (!params->on_pass || !params->on_pass_name) return KD_OK;
  keel_text there = {0};
  bool found = false;
  for (uint32_t i = 0; pass_at(i); i++) {
    found |= !strcmp(pass_at(i)->name, params->on_pass_name);
    if (!came_before(i))
      keel_text_add(&there, "%s%s", there.size ? ", " : "", pass_at(i)->name);
  }
  if (!found)
    keel_fail(KD_NOT_FOUND, "there is no pass \"%s\"; there are %s",
              params->on_pass_name, keel_text_get(&there));
  keel_text_free(&there);
  return found ? KD_OK : KD_NOT_FOUND;
}

/* Shows the function as it is, if the caller has asked for it. */
static keel_status show(const keel_pass *pass, const keel_pass_call *call) {
  const keel_plan_params *params = call->params;
  char *text = NULL;
  size_t size = 0;
  if (!params->on_pass ||
      (params->on_pass_name && strcmp(params->on_pass_name, pass->name) != 0))
    return KD_OK;
  FILE *file = open_memstream(&text, &size);
  if (!file) return keel_no_memory(1);
  keel_status status =
      keel_registry_get()->write_text(call->main, call->device, file);
  if (fclose(file) != 0 && status == KD_OK) status = keel_no_memory(size);
  if (status == KD_OK)
    params->on_pass(params->on_pass_context, pass->name, text);
  free(text);
  return status;
}

static keel_status passes_run(const keel_pass *pass, keel_function *functions,
                              const keel_pass_call *call) {
  if (pass->over_all) return pass->over_all(functions, call);
  for (keel_function *f = functions; f; f = f->next)
    KEEL_TRY(pass->plain ? pass->plain(f) : pass->on_device(f, call->device));
  return KD_OK;
}

/* Constants that compilers may ask for, and that no kernel can read where they are; list:
 * NULL, or where they go, retained. How many. */
static uint32_t list_misaligned(const keel_function *functions,
                                keel_tensor **list) {
  uint32_t count = 0;
  for (const keel_function *f = functions; f; f = f->next)
    for (uint32_t i = 0; i < f->value_count; i++) {
      keel_tensor *constant = f->values[i].constant;
      if (!constant || !keel_tensor_misaligned(constant)) continue;
      if (list) list[count] = keel_tensor_retain(constant);
      count++;
    }
  return count;
}

keel_status keel_held_take(const keel_function *functions,
                           keel_held *out_held) {
  *out_held = (keel_held){.count = list_misaligned(functions, NULL)};
  uint32_t count = out_held->count;
  keel_tensor **list = calloc((size_t)count + 1, sizeof(keel_tensor *));
  out_held->list = list;
  if (!list) return keel_no_memory(count * sizeof(keel_tensor *));
  list_misaligned(functions, list);
  keel_status status = keel_mapping_hold_copies(list, count);
  if (status == KD_OK) return KD_OK;
  for (uint32_t i = 0; i < count; i++)
    keel_tensor_release(list[i]);
  free(list);
  return status;
}

void keel_held_drop(keel_held *held) {
  keel_mapping_release_copies(held->list, held->count, false);
  for (uint32_t i = 0; i < held->count; i++)
    keel_tensor_release(held->list[i]);
  free(held->list);
}

static keel_status run_held(const keel_pass *pass, keel_function *functions,
                            const keel_pass_call *call) {
  keel_held held;
  KEEL_TRY(keel_held_take(functions, &held));
  keel_status status = passes_run(pass, functions, call);
  keel_held_drop(&held);
  return status;
}

/* Whether it is one of the first: before any that looks at shapes. */
static bool is_first(const keel_pass *at, const keel_plan_params *params) {
  for (const keel_pass *p = keel_registry_get()->passes; p <= at; p++)
    if (p->shapes && (!p->requested || (params->flags & p->requested)))
      return false;
  return true;
}

static bool is_left_out(const keel_pass *at, const keel_pass_call *call) {
  const keel_plan_params *params = call->params;
  return is_skipped(params, at->name) || (call->to_save && at->last) ||
         (at->requested && !(params->flags & at->requested)) ||
         (params->flags & KEEL_PLAN_EAGER && !at->needed) ||
         (call->part == KEEL_PASSES_FIRST && !is_first(at, params)) ||
         (call->part == KEEL_PASSES_REST && is_first(at, params)) ||
         (call->part == KEEL_PASSES_AGAIN && at->once) ||
         (at->open && !keel_function_is_open(call->main));
}

keel_status keel_passes_run(keel_function *functions,
                            const keel_pass_call *call) {
  const keel_plan_params *params = call->params;
  for (uint32_t i = 0; i < params->skip_count; i++)
    KEEL_TRY(check_skip(params->skip[i]));
  KEEL_TRY(check_on_pass(params));
  const keel_pass *at;
  for (uint32_t i = 0; (at = pass_at(i)); i++) {
    if (is_left_out(at, call)) continue;
    KEEL_TRY(keel_cancellation_check_planning("pass", at->name));
    uint64_t began = keel_tracing() ? keel_now() : 0;
    KEEL_TRY(at->compilers ? run_held(at, functions, call)
                           : passes_run(at, functions, call));
    if (began) keel_trace_span(at->name, NULL, NULL, began);
    KEEL_TRY(show(at, call));
  }
  return KD_OK;
}

/* ---- their compiled forms ----------------------------------------------------- */

keel_status keel_plan_params_read(const keel_plan_params *given,
                                  keel_plan_params *out_all) {
  KEEL_TRY(KEEL_READ_PARAMS(keel_plan_params, given,
                            offsetof(keel_plan_params, device), out_all));
  return keel_params_flags("a plan", out_all->flags,
                           KEEL_PLAN_BY_COST | KEEL_PLAN_EAGER | KEEL_PLAN_ONE |
                               KEEL_PLAN_NO_REPLAY);
}

keel_device *keel_plan_device(const keel_program *program,
                              const keel_plan_params *params) {
  keel_device *device = params->device;
  if (!device) device = keel_device_scope(program->context);
  if (!device) device = program->device;
  return device ? device : program->context->default_device;
}

/* ---- compiling ahead ----------------------------------------------------------- */

/* Types as a reader of the program's file has them: the declared ones. */
static void declare_types(keel_function *functions) {
  for (keel_function *f = functions; f; f = f->next) {
    for (uint32_t i = 0; i < f->value_count; i++)
      if (!f->values[i].constant) f->values[i].type = NULL;
    for (uint32_t i = 0; i < f->input_count; i++)
      if (!f->values[f->inputs[i]].constant)
        f->values[f->inputs[i]].type = keel_port_type(&f->input_ports[i]);
  }
}

/* Plans the program like a reader of its file, and keeps the compiled forms of the devices'
 * compilers; the plan itself is dropped. */
static keel_status take_forms(keel_program *to, keel_forms *held) {
  static const char *const skip = "transfer";
  const keel_plan_params plain = {
      .struct_size = sizeof plain, .skip_count = 1, .skip = &skip};
  keel_arena arena = {0};
  keel_function *functions = NULL;
  keel_pass_call call = {.params = &plain,
                         .device = to->device,
                         .forms = held,
                         .takes = &to->forms};
  keel_function *main = NULL;
  keel_status status = keel_function_clone(to->main, &arena, &functions, &main);
  call.main = main;
  declare_types(functions);
  if (status == KD_OK) status = keel_passes_run(functions, &call);
  if (status == KD_OK && to->forms.failed) status = keel_no_memory(1);
  keel_functions_release(functions);
  keel_arena_free(&arena);
  return status;
}

static keel_status passes_compile(const keel_program *program,
                                  const keel_plan_params *params,
                                  keel_program *to) {
  to->device = keel_plan_device(program, params);
  if (to->device) KEEL_TRY(keel_device_ready(to->device));
  KEEL_TRY(keel_function_clone(program->main, &to->arena, &to->functions,
                               &to->main));
  const keel_pass_call call = {.params = params,
                               .device = to->device,
                               .main = to->main,
                               .to_save = true};
  KEEL_TRY(keel_passes_run(to->functions, &call));
  if (params->flags & KEEL_PLAN_EAGER || is_skipped(params, "regions") ||
      !keel_any_compiler(program->context))
    return KD_OK;
  /* only annotations of them change */
  return take_forms(to, (keel_forms *)(uintptr_t)&program->forms);
}

keel_status keel_program_compile(const keel_program *program,
                                 const keel_plan_params *params,
                                 keel_program **out_program) {
  keel_plan_params all;
  keel_program *made = NULL;
  *out_program = NULL;
  KEEL_TRY(keel_plan_params_read(params, &all));
  KEEL_TRY(keel_program_create(program->context, &made));
  const keel_cancellation cancellation =
      keel_cancellation_of(all.cancel, all.timeout);
  const keel_cancellation *before = keel_cancellation_use(&cancellation);
  keel_status status = passes_compile(program, &all, made);
  keel_cancellation_use(before);
  if (status != KD_OK) {
    keel_program_release(made);
    return status;
  }
  *out_program = made;
  return KD_OK;
}
