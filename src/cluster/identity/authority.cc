#include "cluster/identity/authority.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/identity/openssl_ptr.h"
#include "cluster/identity/roster.h"

namespace butterfly::cluster {
namespace {

std::string coordinator_of(const StateFolder& folder) {
  return folder.has(kNodeKeyFile) ? load_or_make_key(folder).fingerprint() : std::string();
}

}  // namespace

Authority Authority::make(const StateFolder& folder, const std::string& cluster_name, WallTime now,
                          std::chrono::seconds life) {
  const StateFolder::Lock lock(folder);
  if (is_here(folder))
    fail(Errc::kInvalidArgument, "{}: a cluster was made here before", folder.path().string());
  PrivateKey key = PrivateKey::make();
  Certificate certificate = make_authority_certificate(key, cluster_name, now, life);
  folder.write(kAuthorityKeyFile, key.to_pem());
  folder.write(kAuthorityCertificateFile, certificate.to_pem());
  return {std::move(certificate), std::move(key), coordinator_of(folder)};
}

Authority Authority::load(const StateFolder& folder) {
  const auto place = [&](const char* name) { return (folder.path() / name).string(); };
  PrivateKey key = PrivateKey::from_pem(folder.read(kAuthorityKeyFile), place(kAuthorityKeyFile));
  Certificate certificate =
      Certificate::from_pem(folder.read(kAuthorityCertificateFile), place(kAuthorityCertificateFile));
  if (certificate.node().key != key.fingerprint())
    fail(Errc::kCorrupt, "{}: is not the certificate of {}", place(kAuthorityCertificateFile),
         kAuthorityKeyFile);
  return {std::move(certificate), std::move(key), coordinator_of(folder)};
}

bool Authority::is_here(const StateFolder& folder) {
  return folder.has(kAuthorityKeyFile) && folder.has(kAuthorityCertificateFile);
}

Certificate Authority::issue(const CertificateRequest& request, WallTime now,
                             std::chrono::seconds life) const {
  const auto left = std::max(certificate_.not_after() - now, std::chrono::seconds(0));
  return make_node_certificate(certificate_, key_, request.node(), X509_REQ_get0_pubkey(request.get()),
                               coordinator_, now, std::min<std::chrono::seconds>(life, left));
}

Credentials found_cluster(const StateFolder& folder, const std::string& cluster_name,
                          const std::string& node_name, WallTime now) {
  if (const std::string why = why_not_node_name(node_name); !why.empty())
    fail(Errc::kInvalidArgument, "{}", why);
  if (has_credentials(folder))
    fail(Errc::kInvalidArgument,
         "{}: this node belongs to a cluster already: 'butterfly serve -m MODEL --cluster' starts it, "
         "'butterfly token "
         "new' lets others join; for another cluster choose another folder with --state",
         folder.path().string());
  PrivateKey key = load_or_make_key(folder);
  const Authority authority =
      Authority::is_here(folder) ? Authority::load(folder) : Authority::make(folder, cluster_name, now);
  Certificate own = authority.issue(CertificateRequest::make(key, node_name), now);
  Roster(folder).admit(own.node()).or_throw();
  save_certificates(folder, authority.certificate(), own);
  return {authority.certificate(), std::move(own), std::move(key)};
}

}  // namespace butterfly::cluster
