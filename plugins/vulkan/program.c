/* program.c - sources to pipelines: GLSL to SPIR-V when the plugin was built, or from the
 * host's store, or by shaderc; SPIR-V to a pipeline by the driver, whose cache is
 * stored, too. */
#include <dlfcn.h>
#include <shaderc/shaderc.h>
#include <stdio.h>
#include <string.h>

#include "common/options.h"
#include "spirv.h"
#include "vlk.h"

/* ---- shaderc ---------------------------------------------------------------------- */

/* clang-format off */
#define SHADERC(X) \
  X(compiler_initialize) X(compile_options_initialize) \
  X(compile_options_release) X(compile_options_set_target_env) \
  X(compile_options_set_suppress_warnings) X(compile_into_spv) \
  X(result_get_compilation_status) X(result_get_error_message) \
  X(result_get_bytes) X(result_get_length) X(result_release)
/* clang-format on */

typedef struct shaderc_api {
#define SHADERC_FIELD(name) __typeof__(&shaderc_##name) name;
  SHADERC(SHADERC_FIELD)
#undef SHADERC_FIELD
} shaderc_api;

static bool has_compiler;

#ifdef VLK_SHADERC /* it is part of the plugin */
static const shaderc_api sc = {
#define SHADERC_SLOT(name) .name = shaderc_##name,
    SHADERC(SHADERC_SLOT)
#undef SHADERC_SLOT
};

static const char *find_compiler(void) {
  return NULL;
}
#else
static shaderc_api sc;
static void *compiler_library;

static bool program_find(const char *name, void *slot) {
  void *found = dlsym(compiler_library, name);
  memcpy(slot, &found, sizeof found);
  return found != NULL;
}

/* NULL, or why there is none. It stays open: it keeps thread-local data. */
static const char *find_compiler(void) {
  static char why[256];
  static const char *const names[] = {"libshaderc.so.1",
                                      "libshaderc_shared.so.1"};
  for (size_t i = 0; !compiler_library && i < 2; i++)
    compiler_library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!compiler_library) {
    snprintf(why, sizeof why, "there is no shaderc: %s", dlerror());
    return why;
  }
#define SHADERC_FIND(name)                       \
  if (!program_find("shaderc_" #name, &sc.name)) \
    return "shaderc has "                        \
           "no " #name;
  SHADERC(SHADERC_FIND)
#undef SHADERC_FIND
  return NULL;
}
#endif

void vlk_compiler_open(void) {
  const char *why = option_is(vlk_host, "compiler", "off")
                        ? "it is switched off"
                        : find_compiler();
  has_compiler = !why;
  if (why)
    vlk_host->log(vlk_host, KD_LOG_INFO,
                  "no compiler (%s): %zu kernels were built with the"
                  " plugin, others run elsewhere",
                  why, vlk_prebuilt_count);
}

bool vlk_has_compiler(void) {
  return has_compiler;
}

static const void *prebuilt(const fam_key *key, size_t *out_size) {
  for (size_t i = 0; i < vlk_prebuilt_count; i++)
    if (!memcmp(&vlk_prebuilt[i].key, key, sizeof *key)) {
      *out_size = vlk_prebuilt[i].size;
      return vlk_prebuilt[i].code;
    }
  return NULL;
}

bool vlk_is_built(const char *source) {
  void *blob = NULL;
  size_t size = 0;
  fam_key key = vlk_source_key(source);
  if (prebuilt(&key, &size)) return true;
  bool stored = fam_store_get(vlk_host, &key, &blob, &size) != NULL;
  if (stored) vlk_host->release(vlk_host, blob);
  return stored;
}

/* One for the process, for ever: what a new one costs is 50 ms and some memory. */
static shaderc_compiler_t the_compiler;
static pthread_once_t compiler_made = PTHREAD_ONCE_INIT;

static void make_compiler(void) {
  the_compiler = sc.compiler_initialize();
}

/* The result, which result_release frees; NULL with the reason. */
static shaderc_compilation_result_t to_spirv(const char *source,
                                             kd_status *out_status) {
  pthread_once(&compiler_made, make_compiler);
  shaderc_compile_options_t options = sc.compile_options_initialize();
  shaderc_compilation_result_t result = NULL;
  if (the_compiler && options) {
    sc.compile_options_set_target_env(options, shaderc_target_env_vulkan,
                                      shaderc_env_version_vulkan_1_2);
    sc.compile_options_set_suppress_warnings(options);
    result = sc.compile_into_spv(the_compiler, source, strlen(source),
                                 shaderc_glsl_compute_shader, "family", "main",
                                 options);
  }
  if (options) sc.compile_options_release(options);
  if (!result) {
    *out_status = FAIL(KD_OUT_OF_MEMORY, "no memory for the compiler");
  } else if (sc.result_get_compilation_status(result) !=
             shaderc_compilation_status_success) {
    const char *message = sc.result_get_error_message(result);
    vlk_host->log(vlk_host, KD_LOG_ERROR, "a kernel does not compile: %s",
                  message);
    *out_status =
        FAIL(KD_INTERNAL, "Vulkan: a kernel does not compile: %.300s", message);
    sc.result_release(result);
    result = NULL;
  }
  return result;
}

/* A copy, for the store. */
static void *program_copy_of(const void *code, size_t size) {
  char *blob = vlk_host->allocate(vlk_host, FAM_STORE_HEAD + size, 0);
  if (blob) memcpy(blob + FAM_STORE_HEAD, code, size);
  return blob;
}

/* ---- pipelines -------------------------------------------------------------------------- */

static kd_status build(kd_device *d, const void *code, size_t size,
                       VkPipeline *out) {
  VkShaderModule module = VK_NULL_HANDLE;
  const VkShaderModuleCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
      .codeSize = size,
      .pCode = code};
  VLK_TRY(d, "vkCreateShaderModule",
          vk.CreateShaderModule(d->device, &info, NULL, &module));
  const VkComputePipelineCreateInfo wanted = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main"},
      .layout = d->layout};
  VkResult result =
      vk.CreateComputePipelines(d->device, d->cache, 1, &wanted, NULL, out);
  vk.DestroyShaderModule(d->device, module, NULL);
  VLK_TRY(d, "vkCreateComputePipelines", result);
  return KD_OK;
}

static kd_status vulkan_program_compile(kd_device *d, const char *source,
                                        void **out, void **out_code,
                                        size_t *out_size) {
  VkPipeline pipeline = VK_NULL_HANDLE;
  kd_status status = KD_OK;
  if (!has_compiler)
    return FAIL(KD_UNAVAILABLE, "Vulkan: there is no compiler for a kernel");
  vlk_host->zone_begin(vlk_host, "vulkan compile");
  shaderc_compilation_result_t result = to_spirv(source, &status);
  if (result) {
    const void *code = sc.result_get_bytes(result);
    *out_size = sc.result_get_length(result);
    status = build(d, code, *out_size, &pipeline);
    if (status == KD_OK) *out_code = program_copy_of(code, *out_size);
    sc.result_release(result);
  }
  vlk_host->zone_end(vlk_host);
  if (status == KD_OK) memcpy(out, &pipeline, sizeof *out);
  return status;
}

static void vulkan_program_drop(kd_device *d, void *program) {
  VkPipeline pipeline = VK_NULL_HANDLE;
  memcpy(&pipeline, &program, sizeof program);
  vk.DestroyPipeline(d->device, pipeline, NULL);
}

static fam_key vulkan_program_key_of(kd_device *d, const char *source) {
  (void)d;
  return vlk_source_key(source);
}

/* What was built with the plugin is there on every machine; else it is in the store. */
static kd_status vulkan_program_code_of(kd_device *d, const fam_key *key,
                                        void *program, void **out_code,
                                        size_t *out_size) {
  void *blob = NULL;
  size_t size = 0;
  (void)program;
  if (prebuilt(key, &size)) return KD_OK;
  const void *code = fam_store_get(vlk_host, key, &blob, &size);
  if (!code)
    return FAIL(KD_UNIMPLEMENTED, "%s has no store to keep code in", d->name);
  memmove(blob, code, size);
  *out_code = blob;
  *out_size = size;
  return KD_OK;
}

/* Of SPIR-V, which may be from anywhere. */
static kd_status vulkan_program_load(kd_device *d, const void *code,
                                     size_t size, void **out_program) {
  static const uint32_t magic = 0x07230203;
  VkPipeline pipeline = VK_NULL_HANDLE;
  if (size < 20 || size % 4 || memcmp(code, &magic, sizeof magic) != 0)
    return FAIL(KD_DATA_LOSS, "a compiled form has no SPIR-V");
  kd_status status = build(d, code, size, &pipeline);
  if (status == KD_OK) memcpy(out_program, &pipeline, sizeof *out_program);
  return status;
}

kd_status vlk_pipeline_get(kd_device *d, const char *source, VkPipeline *out) {
  void *program = NULL;
  kd_status status = fam_programs_get(&d->programs, source, &program);
  if (status == KD_OK) memcpy(out, &program, sizeof *out);
  return status;
}

KD_STATIC_ASSERT(sizeof(VkPipeline) == sizeof(void *),
                 "a pipeline is kept as a pointer");

const fam_compiler vlk_compiler = {
    .key = vulkan_program_key_of,
    .built = prebuilt,
    .compile = vulkan_program_compile,
    .load = vulkan_program_load,
    .code = vulkan_program_code_of,
    .release = vulkan_program_drop,
};

/* ---- the driver's cache -------------------------------------------------------------------- */

kd_status vlk_cache_begin(kd_device *d) {
  void *blob = NULL;
  VkPipelineCacheCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.pInitialData =
      fam_store_get(vlk_host, &d->cache_key, &blob, &info.initialDataSize);
  if (!info.pInitialData) info.initialDataSize = 0;
  d->cache_size = info.initialDataSize;
  VkResult code = vk.CreatePipelineCache(d->device, &info, NULL, &d->cache);
  if (blob) vlk_host->release(vlk_host, blob);
  VLK_TRY(d, "vkCreatePipelineCache", code);
  return KD_OK;
}

/* Puts it into the store where it has grown. */
void vlk_cache_end(kd_device *d) {
  size_t size = 0;
  if (vk.GetPipelineCacheData(d->device, d->cache, &size, NULL) == VK_SUCCESS &&
      size > d->cache_size) {
    char *blob = vlk_host->allocate(vlk_host, FAM_STORE_HEAD + size, 0);
    if (blob && vk.GetPipelineCacheData(d->device, d->cache, &size,
                                        blob + FAM_STORE_HEAD) == VK_SUCCESS)
      fam_store_put(vlk_host, &d->cache_key, blob, size);
    if (blob) vlk_host->release(vlk_host, blob);
  }
  vk.DestroyPipelineCache(d->device, d->cache, NULL);
}
