#include "cluster/enrol/keep_renewed.h"

#include "base/log.h"
#include "cluster/enrol/enrolment_client.h"
#include "cluster/identity/renewal.h"

namespace butterfly::cluster {

Result<bool> keep_renewed(const StateFolder& folder, NodeTls& tls, const std::string& address, WallTime now,
                          Duration timeout) {
  const Credentials old = tls.credentials();
  if (!renewal_due(old.own, now)) return false;
  try {
    const auto request = CertificateRequest::make(old.key, old.id().name);
    const std::vector<std::byte> reply =
        Authority::is_here(folder)
            ? Authority::load(folder).issue(request, now).to_der()
            : ask_authority(address, old.authority.sha256(), "", request, timeout).certificate;
    Credentials renewed = accept_renewal(old, reply).or_throw();
    save_certificates(folder, renewed.authority, renewed.own);
    tls.replace(std::move(renewed));
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  log_info("the certificate of node {} was renewed", old.id().name);
  return true;
}

}  // namespace butterfly::cluster
