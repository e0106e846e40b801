#include "cluster/enrol/join.h"

#include "base/error.h"
#include "cluster/enrol/enrolment_client.h"

namespace butterfly::cluster {

Credentials join_cluster(const StateFolder& folder, const std::string& address, const JoinToken& token,
                         const std::string& node_name, Duration timeout) {
  if (const std::string why = why_not_node_name(node_name); !why.empty())
    fail(Errc::kInvalidArgument, "{}", why);
  if (has_credentials(folder))
    fail(Errc::kInvalidArgument, "{}: this node belongs to a cluster already", folder.path().string());
  PrivateKey key = load_or_make_key(folder);
  const EnrolmentReply reply = ask_authority(address, token.authority_hash, token.secret,
                                             CertificateRequest::make(key, node_name), timeout);
  const Certificate authority = Certificate::from_der(reply.authority).or_throw();
  const Certificate own = Certificate::from_der(reply.certificate).or_throw();
  if (authority.sha256() != token.authority_hash || !own.signed_by(authority) ||
      own.node().key != key.fingerprint())
    fail(Errc::kCorrupt, "{}: sent certificates that do not fit the token and this node's key", address);
  save_certificates(folder, authority, own);
  return {authority, own, std::move(key)};
}

}  // namespace butterfly::cluster
