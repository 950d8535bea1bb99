//! `sealcast_proof(_shard, _seq)`: the row's `.tlog-proof` at the query's own snapshot, as text.
//!
//! A row that is not there and one that is not the caller's are the same: NULL. The function is
//! made for one query, and asks the vault below everything that the statement says. It counts as
//! volatile, so that the engine neither folds it while it plans nor takes it into a scan.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, StringBuilder};
use arrow::datatypes::{DataType, UInt64Type};
use async_trait::async_trait;
use datafusion::common::types::{NativeType, logical_uint64};
use datafusion::common::{not_impl_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    Coercion, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignatureClass, Volatility,
};
use sealcast_vault::{ProveError, RowPlace};

use super::error::NotBegun;
use super::session::QueryScope;
use crate::metrics;

/// Its name.
pub(super) const PROOF: &str = "sealcast_proof";
/// Rows that are proved together: their leaves are held until then.
const ROWS_AT_ONCE: usize = 256;

/// The function for the query of `scope`.
pub(super) fn proof_function(scope: &Arc<QueryScope>) -> Arc<ScalarUDF> {
    let number = Coercion::new_implicit(
        TypeSignatureClass::Native(logical_uint64()),
        vec![TypeSignatureClass::Integer],
        NativeType::UInt64,
    );
    let signature = Signature::coercible(vec![number; 2], Volatility::Volatile);
    let function = ProofFunction { scope: Arc::clone(scope), signature };
    Arc::new(AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf())
}

#[derive(Debug)]
struct ProofFunction {
    scope: Arc<QueryScope>,
    signature: Signature,
}

impl PartialEq for ProofFunction {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.scope, &other.scope)
    }
}

impl Eq for ProofFunction {}

impl Hash for ProofFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.scope).hash(state);
    }
}

impl ProofFunction {
    async fn prove(&self, shards: &ArrayRef, seqs: &ArrayRef) -> Result<ArrayRef> {
        let scope = &self.scope;
        if !scope.snapshot.has_begun() {
            return Err(NotBegun.into());
        }
        if let Some(stale) = scope.stale {
            return Err(stale.into());
        }
        let (shards, seqs) =
            (shards.as_primitive::<UInt64Type>(), seqs.as_primitive::<UInt64Type>());
        let places = shards.iter().zip(seqs.iter());
        let places: Vec<Option<RowPlace>> =
            places.map(|(shard, seq)| Some((u16::try_from(shard?).ok()?, seq?))).collect();
        let wanted: Vec<RowPlace> = places.iter().flatten().copied().collect();
        let proven = scope.snapshot.prove(&wanted, scope.grant.tenants.limited(), usize::MAX);
        let proven = proven.await.map_err(failed)?;
        let mut proven = proven.into_iter();
        let mut texts = StringBuilder::new();
        for place in &places {
            let found = place.and_then(|_| proven.next().flatten());
            texts.append_option(found.map(|(_, proof)| proof.to_text()));
        }
        let texts = texts.finish();
        metrics::proofs((texts.len() - texts.null_count()) as u64, "given");
        Ok(Arc::new(texts))
    }
}

fn failed(error: ProveError) -> DataFusionError {
    metrics::proofs(1, metrics::outcome(error.kind()));
    DataFusionError::External(Box::new(error))
}

impl ScalarUDFImpl for ProofFunction {
    fn name(&self) -> &str {
        PROOF
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("{PROOF} in this place; it may stand in SELECT, WHERE and GROUP BY")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for ProofFunction {
    fn ideal_batch_size(&self) -> Option<usize> {
        Some(ROWS_AT_ONCE)
    }

    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        // The same of all rows: proved once.
        let once = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let wanted = if once { 1 } else { rows };
        let [shards, seqs] = args.args.as_slice() else {
            return plan_err!("{PROOF} takes (_shard, _seq)");
        };
        let (shards, seqs) = (shards.to_array(wanted)?, seqs.to_array(wanted)?);
        let texts = self.prove(&shards, &seqs).await?;
        if !once {
            return Ok(ColumnarValue::Array(texts));
        }
        Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&texts, 0)?))
    }
}
