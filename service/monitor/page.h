// The files of the status page, in service/monitor/page, built into the daemon.
#ifndef GEMMD_SERVICE_MONITOR_PAGE_H_
#define GEMMD_SERVICE_MONITOR_PAGE_H_

namespace gemmd::monitor {

extern const char kPageHtml[];
extern const char kPageScript[];
extern const char kPageStyle[];

}  // namespace gemmd::monitor

#endif  // GEMMD_SERVICE_MONITOR_PAGE_H_
