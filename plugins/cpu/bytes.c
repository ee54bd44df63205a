/* bytes.c - which instructions for products of bytes the processor has.
 *
 * They come and go apart from the sets of vector instructions: AVX-VNNI and AVX512-VNNI, and
 * AMX, whose registers a process must ask the system for. */
#include "cpu.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static cpu_bytes_isa chosen;

cpu_bytes_isa cpu_bytes(void) {
  return chosen;
}

#if defined(__x86_64__) && defined(__linux__)
#define GET_STATE   0x1022 /* of arch_prctl: ARCH_GET_XCOMP_PERM */
#define ASK_STATE   0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA   18
#define HAS(r, bit) ((r) >> (bit)&1)

/* The system keeps tile registers, for all threads of this process. */
static bool may_use_tiles(void) {
  unsigned long long state = 0;
  return !syscall(SYS_arch_prctl, ASK_STATE, TILE_DATA) &&
         !syscall(SYS_arch_prctl, GET_STATE, &state) && HAS(state, TILE_DATA);
}

static cpu_bytes_isa detect(void) {
  unsigned a = 0, b = 0, c = 0, d = 0, more = 0, unused = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return CPU_BYTES_PLAIN;
  if (!__get_cpuid_count(7, 1, &more, &unused, &unused, &unused)) more = 0;
  bool vnni = cpu_isa() == 2 ? HAS(c, 11) : cpu_isa() == 1 && HAS(more, 4);
  if (!vnni) return CPU_BYTES_PLAIN;
  return cpu_isa() == 2 && HAS(d, 24) && HAS(d, 25) && may_use_tiles()
             ? CPU_BYTES_AMX
             : CPU_BYTES_VNNI;
}
#else
static cpu_bytes_isa detect(void) {
  return CPU_BYTES_PLAIN;
}
#endif

kd_status cpu_choose_bytes(void) {
  static const char *const names[] = {"plain", "vnni", "amx"};
  const char *wanted = cpu_host->option(cpu_host, "bytes");
  cpu_bytes_isa best = detect();
  chosen = best;
  for (int i = 0; wanted && i < 3; i++)
    if (!strcmp(wanted, names[i])) chosen = (cpu_bytes_isa)i;
  return chosen <= best
             ? KD_OK
             : FAIL(KD_INVALID_ARGUMENT,
                    "option bytes is %s, and this processor, with what option"
                    " isa leaves of it, has %s at most",
                    wanted, names[best]);
}
