/* passes.c - all passes, in their order. */
#include "passes/passes.h"

typedef struct pass {
  const char *name, *about;
  bool needed; /* no plan can do without */
  keel_status (*run)(keel_function *function, const keel_pass_call *call);
  keel_status (*run_all)(keel_function *functions, const keel_pass_call *call);
} pass;

static keel_status place(keel_function *functions, const keel_pass_call *call) {
  return keel_pass_place(functions, call->params->places,
                         call->params->place_count);
}

static keel_status sort(keel_function *function, const keel_pass_call *call) {
  (void)call;
  return keel_function_sort(function);
}

static keel_status prune(keel_function *function, const keel_pass_call *call) {
  (void)call;
  return keel_pass_prune(function);
}

static keel_status types(keel_function *function, const keel_pass_call *call) {
  (void)call;
  return keel_pass_types(function);
}

static keel_status expand(keel_function *function, const keel_pass_call *call) {
  (void)call;
  KEEL_TRY(keel_pass_expand(function));
  return keel_pass_types(function);
}

static keel_status fold(keel_function *function, const keel_pass_call *call) {
  (void)call;
  return keel_pass_fold(function);
}

static keel_status cse(keel_function *function, const keel_pass_call *call) {
  (void)call;
  return keel_pass_cse(function);
}

static keel_status cost(keel_function *function, const keel_pass_call *call) {
  return call->params->flags & KEEL_PLAN_BY_COST
             ? keel_pass_place_by_cost(function)
             : KD_OK;
}

static keel_status fuse(keel_function *function, const keel_pass_call *call) {
  KEEL_TRY(keel_pass_fuse(function, call->device));
  return keel_pass_prune(function);
}

static keel_status layout(keel_function *function, const keel_pass_call *call) {
  return keel_pass_layout(function, call->device);
}

static keel_status transfer(keel_function *functions,
                            const keel_pass_call *call) {
  return keel_pass_transfer(functions, call->device);
}

static const pass passes[] = {
    {"place", "gives nodes the devices that rules name", true, NULL, place},
    {"sort", "puts nodes behind those they need", true, sort, NULL},
    {"prune", "drops what nobody needs", false, prune, NULL},
    {"types", "infers types as far as they can be told", true, types, NULL},
    {"expand", "writes ops that no device has with simpler ones", true, expand,
     NULL},
    {"fold", "runs what hangs on constants alone, drops Identity", false, fold,
     NULL},
    {"cse", "computes equal things once", false, cse, NULL},
    {"cost", "places nodes by what they cost, where that is asked for", false,
     cost, NULL},
    {"fuse", "brings what follows a convolution into it", false, fuse, NULL},
    {"layout", "lets convolutions keep the device's blocked layout", false,
     layout, NULL},
    {"transfer", "copies values once for all that read them on a device", false,
     NULL, transfer},
};

#define PASSES (sizeof passes / sizeof *passes)

const char *keel_pass_name(uint32_t index) {
  return index < PASSES ? passes[index].name : NULL;
}

const char *keel_pass_about(uint32_t index) {
  return index < PASSES ? passes[index].about : NULL;
}

int keel_pass_needed(uint32_t index) {
  return index < PASSES && passes[index].needed;
}

/* Whether a name is a pass's that may be left out. */
static keel_status check_skip(const char *name) {
  keel_text there = {0};
  for (size_t i = 0; i < PASSES; i++) {
    if (passes[i].needed) continue;
    if (name && !strcmp(passes[i].name, name)) {
      keel_text_free(&there);
      return KD_OK;
    }
    keel_text_add(&there, "%s%s", there.size ? ", " : "", passes[i].name);
  }
  keel_fail(KD_NOT_FOUND,
            "there is no pass \"%s\" that can be left out; %s can",
            name ? name : "", keel_text_get(&there));
  keel_text_free(&there);
  return KD_NOT_FOUND;
}

static bool is_skipped(const keel_plan_params *params, const char *name) {
  for (uint32_t i = 0; i < params->skip_count; i++)
    if (!strcmp(params->skip[i], name)) return true;
  return false;
}

keel_status keel_passes_run(keel_function *functions,
                            const keel_pass_call *call) {
  for (uint32_t i = 0; i < call->params->skip_count; i++)
    KEEL_TRY(check_skip(call->params->skip[i]));
  for (size_t i = 0; i < PASSES; i++) {
    if (is_skipped(call->params, passes[i].name)) continue;
    if (passes[i].run_all) KEEL_TRY(passes[i].run_all(functions, call));
    for (keel_function *f = functions; f && passes[i].run; f = f->next)
      KEEL_TRY(passes[i].run(f, call));
  }
  return KD_OK;
}
