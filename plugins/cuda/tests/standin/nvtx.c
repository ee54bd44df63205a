/* nvtx.c - a profiler for NVTX's ranges: prints them. NVTX_INJECTION64_PATH names it. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static _Thread_local int depth;

static int NVTX_API push(const char *name) {
  fprintf(stderr, "nvtx: %d %s\n", depth, name);
  return depth++;
}

static int NVTX_API pop(void) {
  if (!depth) fprintf(stderr, "nvtx: a range ends that did not begin\n");
  return --depth;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned size = 0;
  if (!callbacks ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) ||
      size <= NVTX_CBID_CORE_RangePop)
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
