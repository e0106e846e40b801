#include "cluster/identity/credentials.h"

#include "base/error.h"

namespace butterfly::cluster {
namespace {

std::string place(const StateFolder& folder, const char* name) { return (folder.path() / name).string(); }

}  // namespace

bool has_credentials(const StateFolder& folder) {
  return folder.has(kNodeKeyFile) && folder.has(kNodeCertificateFile) &&
         folder.has(kAuthorityCertificateFile);
}

Credentials load_credentials(const StateFolder& folder) {
  const auto certificate = [&](const char* name) {
    return Certificate::from_pem(folder.read(name), place(folder, name));
  };
  Credentials found{.authority = certificate(kAuthorityCertificateFile),
                    .own = certificate(kNodeCertificateFile),
                    .key = PrivateKey::from_pem(folder.read(kNodeKeyFile), place(folder, kNodeKeyFile))};
  if (found.own.node().key != found.key.fingerprint())
    fail(Errc::kCorrupt, "{}: is the certificate of key {}, {} has {}", place(folder, kNodeCertificateFile),
         found.own.node().key, kNodeKeyFile, found.key.fingerprint());
  if (!found.own.signed_by(found.authority))
    fail(Errc::kCorrupt, "{}: is not signed by {}", place(folder, kNodeCertificateFile),
         kAuthorityCertificateFile);
  return found;
}

void save_certificates(const StateFolder& folder, const Certificate& authority, const Certificate& own) {
  folder.write(kAuthorityCertificateFile, authority.to_pem());
  folder.write(kNodeCertificateFile, own.to_pem());
}

PrivateKey load_or_make_key(const StateFolder& folder) {
  if (folder.has(kNodeKeyFile))
    return PrivateKey::from_pem(folder.read(kNodeKeyFile), place(folder, kNodeKeyFile));
  PrivateKey key = PrivateKey::make();
  folder.write(kNodeKeyFile, key.to_pem());
  return key;
}

}  // namespace butterfly::cluster
