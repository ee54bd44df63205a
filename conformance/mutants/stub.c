/* stub.c - libraries that are wrong before anything is called. */
#include <kd/kd.h>

#if defined(STUB_NEEDS)
int from_the_build_folder(void);
KD_EXPORT int uses_it(void);
KD_EXPORT int uses_it(void) {
  return from_the_build_folder();
}
#elif defined(STUB_GONE)
KD_EXPORT int from_the_build_folder(void);
KD_EXPORT int from_the_build_folder(void) {
  return 1;
}
#elif defined(STUB_NO_ENTRY)
KD_EXPORT const kd_plugin *kd_entri_0(const kd_host *host);
KD_EXPORT const kd_plugin *kd_entri_0(const kd_host *host) {
  (void)host;
  return NULL;
}
#else
KD_EXPORT int init(void);
KD_EXPORT int init(void) {
  return 1;
}
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host);
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host) {
  host->fail(KD_UNAVAILABLE, "only its symbols are of interest");
  return NULL;
}
#endif
